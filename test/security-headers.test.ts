import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SECURITY_HEADERS } from '../src/http/security-headers.ts';
import { lockTable } from './support/database.ts';
import { type Service, startService } from './support/service.ts';
import { RawConnection } from './support/socket.ts';

let service: Service;
/** The same with CORS, with a limit that each request exceeds, and past the sunset of `getPet`. */
let strict: Service;
beforeAll(async () => {
  service = await startService({
    config: { requestTimeoutMs: 1000, requestDeadlineMs: 2000 },
    extend: (app) => app.get('/fault', () => Promise.reject(new Error('a fault inside'))),
  });
  strict = await startService({
    config: { corsOrigins: ['https://app.example.com'], rateLimitPerMinute: 2 },
    clock: () => new Date('2031-01-01'),
  });
});
afterAll(() => Promise.all([service.stop(), strict.stop()]));

interface WireAnswer {
  status: number;
  /** In lower case; a name that comes twice has two values. */
  headers: Headers;
  body: string;
}

/** Sends bytes, and gives the answer, which is the last one of its connection. */
async function ask(port: number, bytes: string): Promise<WireAnswer> {
  const connection = new RawConnection(port);
  connection.send(bytes);
  await connection.closed();
  const [head = '', ...body] = connection.received.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = new Headers(lines.map((line) => splitAt(line, line.indexOf(':'))));
  return { status: Number(statusLine.split(' ')[1]), headers, body: body.join('\r\n\r\n') };
}
const splitAt = (text: string, index: number): [string, string] => [
  text.slice(0, index),
  text.slice(index + 1),
];

const HEAD = 'Host: a\r\nConnection: close\r\n';
const withKey = ({ key }: Service) => `${HEAD}Authorization: Bearer ${key}\r\n`;
const get = (path: string) => `GET ${path} HTTP/1.1\r\n${withKey(service)}\r\n`;
const post = (path: string, body: string, headers = 'Content-Type: application/json\r\n') =>
  `POST ${path} HTTP/1.1\r\n${withKey(service)}${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

function expectSafe({ headers }: WireAnswer): void {
  expect(Object.fromEntries(headers)).toMatchObject(SECURITY_HEADERS); // each once: twice would be "no-store, no-store"
  for (const name of ['server', 'x-powered-by', 'via', 'set-cookie']) expect(headers.get(name)).toBeNull();
}

function expectSafeJson(answer: WireAnswer): void {
  expectSafe(answer);
  expect(answer.headers.get('content-type')).toMatch(/^application\/json(; charset=utf-8)?$/);
}

describe('each answer has the security headers, is application/json, and does not name its server', () => {
  test.each<[what: string, status: number, bytes: () => string]>([
    // answers of operations
    ['a page', 200, () => get('/v1/pets')],
    ['a new animal', 201, () => post('/v1/pets', '{"name":"a","categoryId":1}')],
    ['one animal', 200, () => get('/v1/pets/1')],
    ['a message', 202, () => post('/quickstart/messages', '{"message":"a"}')],
    ['liveness', 200, () => get('/health/live')],
    ['readiness', 200, () => get('/health/ready')],
    ['the OpenAPI document', 200, () => get('/openapi.json')],
    [
      'an upgrade that is not taken',
      200,
      () => get('/v1/pets').replace('Connection: close', 'Connection: close, Upgrade\r\nUpgrade: h2c'),
    ],
    // refusals of the service
    ['no key', 401, () => `GET /v1/pets HTTP/1.1\r\n${HEAD}\r\n`],
    ['a bad key', 401, () => `GET /v1/pets HTTP/1.1\r\n${HEAD}Authorization: Bearer x\r\n\r\n`],
    ['a bad query', 400, () => get('/v1/pets?limit=0')],
    ['a bad cursor', 400, () => get('/v1/pets?cursor=x')],
    ['a body that is no JSON', 400, () => post('/v1/pets', '{')],
    ['a body of the wrong shape', 400, () => post('/v1/pets', '{}')],
    ['a body of no type', 400, () => post('/v1/pets', '{}', '')],
    ['a body of another type', 415, () => post('/v1/pets', '{}', 'Content-Type: text/html\r\n')],
    ['a body that is too large', 413, () => post('/v1/pets', 'x'.repeat(65_537))],
    ['no such animal', 404, () => get('/v1/pets/0')],
    [
      'an unmet expectation',
      417,
      () => post('/v1/pets', '{}', 'Content-Type: application/json\r\nExpect: x\r\n'),
    ],
    ['no Host', 400, () => get('/health/live').replace('Host: a\r\n', '')],
    ['a fault inside', 500, () => get('/fault')],
    // router and framework
    ['no such route', 404, () => get('/nothing')],
    ['no such route under /v1', 404, () => get('/v1/nothing')],
    ['no such method', 405, () => `DELETE /v1/pets HTTP/1.1\r\n${withKey(service)}\r\n`],
    ['OPTIONS', 405, () => `OPTIONS /v1/pets HTTP/1.1\r\n${withKey(service)}\r\n`],
    ['TRACE', 405, () => `TRACE /v1/pets HTTP/1.1\r\n${withKey(service)}\r\n`],
    ['a path that cannot be decoded', 400, () => get('/%ff')],
    ['CONNECT', 501, () => `CONNECT a:443 HTTP/1.1\r\n${HEAD}\r\n`],
    // HTTP parser
    ['no HTTP', 400, () => 'hello\r\n\r\n'],
    ['HTTP/2', 400, () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a TLS handshake', 400, () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    [
      'a broken chunk',
      400,
      () =>
        get('/v1/pets')
          .replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')
          .replace('GET', 'POST'),
    ],
    ['a large head', 431, () => get(`/${'a'.repeat(20_000)}`)],
    ['half a head', 408, () => get('/v1/pets').slice(0, -2)],
    ['half a body', 408, () => post('/v1/pets', '{}').slice(0, -1)],
  ])('%s: %i', async (_what, status, bytes) => {
    const answer = await ask(service.port, bytes());
    expect(answer.status).toBe(status);
    expectSafeJson(answer);
    expect(() => JSON.parse(answer.body)).not.toThrow();
  });

  test('a table that is locked: 503', async () => {
    const unlock = await lockTable(service.databaseUrl, 'pets');
    const answer = await ask(service.port, get('/v1/pets'));
    await unlock();
    expect(answer.status).toBe(503);
    expectSafeJson(answer);
  });

  test('a surplus connection: 503', async () => {
    const crowded = await startService({ config: { maxConnections: 1 } });
    const first = new RawConnection(crowded.port);
    first.send(`GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n`);
    await first.answers(1);
    const answer = await ask(crowded.port, `GET /v1/pets HTTP/1.1\r\n${withKey(crowded)}\r\n`);
    expect(answer.status).toBe(503);
    expectSafeJson(answer);
    first.destroy();
    await crowded.stop();
  });

  test('an operation that is gone: 410', async () => {
    const answer = await ask(strict.port, `GET /v1/pets/1 HTTP/1.1\r\n${withKey(strict)}\r\n`);
    expect(answer.status).toBe(410);
    expectSafeJson(answer);
  });

  test('too many requests: 429', async () => {
    const bytes = `GET /v1/pets HTTP/1.1\r\n${withKey(strict)}\r\n`;
    for (const status of [200, 200, 429]) {
      const answer = await ask(strict.port, bytes);
      expect(answer.status).toBe(status);
      expectSafeJson(answer);
    }
  });

  test('a preflight: 204, without a body', async () => {
    const origin = 'Origin: https://app.example.com\r\nAccess-Control-Request-Method: GET\r\n';
    const answer = await ask(strict.port, `OPTIONS /v1/pets HTTP/1.1\r\n${HEAD}${origin}\r\n`);
    expect([answer.status, answer.body, answer.headers.get('content-type')]).toEqual([204, '', null]);
    expectSafe(answer);
  });

  test.each([
    ['/v1/pets', 200],
    ['/openapi.json', 200],
    ['/v1/pets?limit=0', 400],
    ['/%ff', 400],
    ['/nothing', 404],
    [`/${'a'.repeat(20_000)}`, 431],
  ])('HEAD %.20s: %i, without a body', async (path, status) => {
    const answer = await ask(service.port, get(path).replace('GET', 'HEAD'));
    expect([answer.status, answer.body]).toEqual([status, '']);
    expectSafeJson(answer);
  });
});

describe('what a client sends comes back only as a JSON value of its own data', () => {
  const SCRIPT = '<script>alert(1)</script>';
  const encoded = encodeURIComponent(SCRIPT);

  test.each<[what: string, bytes: () => string]>([
    ['in a path', () => get(`/${SCRIPT}`)],
    ['in a path, encoded', () => get(`/v1/${encoded}`)],
    ['as a petId', () => get(`/v1/pets/${encoded}`)],
    ['in a path that cannot be decoded', () => get(`/${SCRIPT}%ff`)],
    ['as a limit', () => get(`/v1/pets?limit=${SCRIPT}`)],
    ['as a status', () => get(`/v1/pets?status=${encoded}`)],
    ['as a cursor', () => get(`/v1/pets?cursor=${encoded}`)],
    ['as an unknown name in the query', () => get(`/v1/pets?limit=1&${SCRIPT}=${SCRIPT}`)],
    ['as a callback', () => get(`/openapi.json?callback=${SCRIPT}`)],
    ['as a key', () => `GET /v1/pets HTTP/1.1\r\n${HEAD}Authorization: Bearer ${SCRIPT}\r\n\r\n`],
    ['as a Host', () => get('/nothing').replace('Host: a', `Host: ${SCRIPT}`)],
    ['as an Origin', () => get('/v1/pets?limit=1').replace('Host: a', `Host: a\r\nOrigin: ${SCRIPT}`)],
    ['as a Referer', () => get('/nothing').replace('Host: a', `Host: a\r\nReferer: ${SCRIPT}`)],
    [
      'as an x-request-id',
      () => get('/v1/pets?limit=1').replace('Host: a', `Host: a\r\nX-Request-Id: ${SCRIPT}`),
    ],
    ['as a method', () => `${SCRIPT} / HTTP/1.1\r\n\r\n`],
    ['as a media type', () => post('/v1/pets', '{}', `Content-Type: ${SCRIPT}\r\n`)],
    [
      'as an Idempotency-Key',
      () =>
        post(
          '/v1/pets',
          '{"name":"a","categoryId":1}',
          `Content-Type: application/json\r\nIdempotency-Key: ${SCRIPT}\r\n`,
        ),
    ],
    ['in malformed JSON', () => post('/v1/pets', SCRIPT)],
    ['as a member name', () => post('/v1/pets', JSON.stringify({ [SCRIPT]: SCRIPT }))],
    [
      'as a status of an animal',
      () => post('/v1/pets', JSON.stringify({ name: 'a', categoryId: 1, status: SCRIPT })),
    ],
    ['as a host to connect to', () => `CONNECT ${SCRIPT}:443 HTTP/1.1\r\n${HEAD}\r\n`],
  ])('a script %s does not come back', async (_what, bytes) => {
    const { headers, body } = await ask(service.port, bytes());
    for (const text of [body, ...headers.values()]) {
      expect(text).not.toContain('alert(1)');
      expect(text).not.toContain(encodeURIComponent('alert(1)'));
    }
  });

  test('a script as a name comes back as JSON, which no browser may show or take for anything else', async () => {
    const body = JSON.stringify({ name: SCRIPT, categoryId: 1 });
    const created = await ask(service.port, post('/v1/pets', body));
    expect(JSON.parse(created.body)).toMatchObject({ name: SCRIPT });
    const listed = await ask(service.port, get('/v1/pets?limit=1'));
    expect(JSON.parse(listed.body)).toMatchObject([{ name: SCRIPT }]);
    for (const answer of [created, listed]) {
      expectSafeJson(answer);
    }
  });

  test.each(['%0d%0aSet-Cookie:%20a=b', '\x85Set-Cookie: a=b', '%E5%98%8A%E5%98%8DSet-Cookie:%20a=b'])(
    'no header can be added by %j',
    async (injection) => {
      for (const path of [`/v1/pets?limit=1&status=${injection}`, `/v1/pets/${injection}`, `/${injection}`]) {
        expect((await ask(service.port, get(path))).headers.get('set-cookie')).toBeNull();
      }
    },
  );
});
