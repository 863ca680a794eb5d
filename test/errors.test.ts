import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ERROR_STATUS } from '../src/http/errors.ts';
import { type Service, startService } from './support/service.ts';
import { exchange, RawConnection, type RawAnswer } from './support/socket.ts';

const SECRET = 'postgres://secret@inside';

let service: Service;
beforeAll(async () => {
  service = await startService({ config: { requestTimeoutMs: 1000 }, extend: addFaults });
});
afterAll(() => service.stop());

/** Routes that fail in every way that code can. */
function addFaults(app: Service['app']): void {
  app.get('/fault/error', () => Promise.reject(new Error(SECRET)));
  app.get('/fault/sync', () => {
    throw new TypeError(SECRET);
  });
  app.get('/fault/null', () => Promise.reject(null));
  app.get('/fault/string', () => Promise.reject(SECRET));
  app.get('/fault/claims-400', () => Promise.reject(Object.assign(new Error(SECRET), { statusCode: 400 })));
  app.get('/fault/claims-headers', () =>
    Promise.reject(Object.assign(new Error(SECRET), { statusCode: 404, headers: { secret: SECRET } })),
  );
  app.get('/fault/on-send', { onSend: () => Promise.reject(new Error(SECRET)) }, async () => ({}));
  app.get('/fault/pre-handler', { preHandler: () => Promise.reject(new Error(SECRET)) }, async () => ({}));
  app.get('/fault/header', (_request, reply) => reply.header('x-bad', 'a\nb').send({}));
  app.get('/fault/circular', async () => {
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    return circular;
  });
  app.get(
    '/fault/response-schema',
    {
      schema: {
        response: { 200: { type: 'object', required: ['id'], properties: { id: { type: 'integer' } } } },
      },
    },
    async () => ({}),
  );
}

function expectError({ status, headers, body }: RawAnswer, code: string): void {
  expect(headers['content-type']).toMatch(/^application\/json\b/);
  expect(JSON.parse(body)).toEqual({ code, message: expect.stringMatching(/\S/), status });
  expect(Object.keys(JSON.parse(body))).toEqual(['code', 'message', 'status']);
  expect(headers['x-request-id']).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
  expect(body).not.toContain(SECRET);
  expect(body).not.toMatch(/node_modules|\.ts|:\d+:\d+/);
}

const HOST = 'Host: localhost\r\n';
const JSON_TYPE = 'Content-Type: application/json\r\n';
const withKey = () => `${HOST}Authorization: Bearer ${service.key}\r\n`;

describe('every error is {code, message, status} as application/json, with x-request-id', () => {
  type Case = [what: string, status: number, code: string, request: () => string];
  const cases: Case[] = [
    // router
    ['an unknown path', 404, 'route_not_found', () => `GET /nothing HTTP/1.1\r\n${HOST}\r\n`],
    [
      'an unknown path under /v1',
      404,
      'route_not_found',
      () => `GET /v1/nothing HTTP/1.1\r\n${withKey()}\r\n`,
    ],
    ['the root', 404, 'route_not_found', () => `GET / HTTP/1.1\r\n${HOST}\r\n`],
    ['an asterisk', 404, 'route_not_found', () => `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`],
    [
      'a path that cannot be decoded',
      400,
      'invalid_request',
      () => `GET /v1/pets/%ff HTTP/1.1\r\n${HOST}\r\n`,
    ],
    ['half an escape', 400, 'invalid_request', () => `GET /v1/%2 HTTP/1.1\r\n${HOST}\r\n`],
    ['a long path', 404, 'route_not_found', () => `GET /${'a'.repeat(8000)} HTTP/1.1\r\n${HOST}\r\n`],
    ['a method a path lacks', 405, 'method_not_allowed', () => `PUT /v1/pets HTTP/1.1\r\n${withKey()}\r\n`],
    ['OPTIONS', 405, 'method_not_allowed', () => `OPTIONS /v1/pets HTTP/1.1\r\n${withKey()}\r\n`],
    ['TRACE', 405, 'method_not_allowed', () => `TRACE /v1/pets HTTP/1.1\r\n${withKey()}\r\n`],
    ['QUERY', 405, 'method_not_allowed', () => `QUERY /v1/pets HTTP/1.1\r\n${withKey()}\r\n`],
    ['a rare method', 405, 'method_not_allowed', () => `M-SEARCH /health/live HTTP/1.1\r\n${HOST}\r\n`],
    [
      'a body on a path without one',
      405,
      'method_not_allowed',
      () => `DELETE /v1/pets/1 HTTP/1.1\r\n${withKey()}${JSON_TYPE}Content-Length: 1\r\n\r\n{`,
    ],
    ['an absolute address', 404, 'route_not_found', () => `GET http://localhost/x HTTP/1.1\r\n${HOST}\r\n`],
    // authentication
    ['no key', 401, 'missing_api_key', () => `GET /v1/pets HTTP/1.1\r\n${HOST}\r\n`],
    [
      'a bad key',
      401,
      'invalid_api_key',
      () => `GET /v1/pets HTTP/1.1\r\n${HOST}Authorization: Bearer x\r\n\r\n`,
    ],
    // body
    ['no Content-Type', 400, 'invalid_request', () => post('', 'Content-Length: 2\r\n\r\n{}')],
    ['no Content-Type and no body', 400, 'invalid_request', () => post('', '\r\n')],
    ['another media type', 415, 'unsupported_media_type', () => post('Content-Type: text/xml\r\n', '\r\n')],
    [
      'two Content-Types',
      415,
      'unsupported_media_type',
      () => post(JSON_TYPE + JSON_TYPE, 'Content-Length: 2\r\n\r\n{}'),
    ],
    ['an empty body', 400, 'malformed_json', () => post(JSON_TYPE, 'Content-Length: 0\r\n\r\n')],
    ['an absent body', 400, 'malformed_json', () => post(JSON_TYPE, '\r\n')],
    ['malformed JSON', 400, 'malformed_json', () => post(JSON_TYPE, 'Content-Length: 1\r\n\r\n{')],
    ['a wrong body', 400, 'invalid_request', () => post(JSON_TYPE, 'Content-Length: 2\r\n\r\n{}')],
    [
      'a body announced too large',
      413,
      'payload_too_large',
      () => post(JSON_TYPE, 'Content-Length: 65537\r\n\r\n'),
    ],
    [
      'a chunked body that becomes too large',
      413,
      'payload_too_large',
      () => post(JSON_TYPE, `Transfer-Encoding: chunked\r\n\r\n10001\r\n${'x'.repeat(65_537)}\r\n`),
    ],
    // what HTTP asks
    ['no Host', 400, 'invalid_request', () => 'GET /health/live HTTP/1.1\r\n\r\n'],
    ['two Hosts', 400, 'invalid_request', () => `GET /health/live HTTP/1.1\r\n${HOST}${HOST}\r\n`],
    [
      'two media types in one',
      415,
      'unsupported_media_type',
      () => post('Content-Type: application/json; v=1, text/plain\r\n', 'Content-Length: 2\r\n\r\n{}'),
    ],
    ['another expectation', 417, 'expectation_failed', () => post(`${JSON_TYPE}Expect: 200-ok\r\n`, '\r\n')],
    [
      'an expectation without a key',
      401,
      'missing_api_key',
      () => `GET /v1/pets HTTP/1.1\r\n${HOST}Expect: x\r\n\r\n`,
    ],
    [
      'a Host with a bad escape',
      400,
      'invalid_request',
      () => 'GET /health/live HTTP/1.1\r\nHost: %zz\r\n\r\n',
    ],
    ['a Host that is none', 400, 'invalid_request', () => 'GET /health/live HTTP/1.1\r\nHost: a b\r\n\r\n'],
    ['no Host and no key', 401, 'missing_api_key', () => 'GET /v1/pets HTTP/1.1\r\n\r\n'],
    ['CONNECT', 501, 'not_implemented', () => `CONNECT localhost:1 HTTP/1.1\r\n${HOST}\r\n`],
    // HTTP parser
    ['no HTTP', 400, 'invalid_request', () => 'hello\r\n\r\n'],
    ['a TLS handshake', 400, 'invalid_request', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['an unknown method', 400, 'invalid_request', () => `BREW /v1/pets HTTP/1.1\r\n${HOST}\r\n`],
    ['an unknown version', 400, 'invalid_request', () => `GET / HTTP/9.9\r\n${HOST}\r\n`],
    ['a header without a colon', 400, 'invalid_request', () => `GET / HTTP/1.1\r\n${HOST}bad header\r\n\r\n`],
    [
      'two Content-Lengths',
      400,
      'invalid_request',
      () => post(JSON_TYPE, 'Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}'),
    ],
    [
      'both Content-Length and chunked',
      400,
      'invalid_request',
      () => post(JSON_TYPE, 'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}'),
    ],
    [
      'a bad chunk size',
      400,
      'invalid_request',
      () => post(JSON_TYPE, 'Transfer-Encoding: chunked\r\n\r\nzz\r\n'),
    ],
    [
      'large headers',
      431,
      'headers_too_large',
      () => `GET / HTTP/1.1\r\n${HOST}X: ${'a'.repeat(20_000)}\r\n\r\n`,
    ],
    ['a large path', 431, 'headers_too_large', () => `GET /${'a'.repeat(20_000)} HTTP/1.1\r\n${HOST}\r\n`],
    [
      'large chunk extensions',
      400,
      'invalid_request',
      () => post(JSON_TYPE, `Transfer-Encoding: chunked\r\n\r\n1;${'a'.repeat(20_000)}\r\n`),
    ],
    // time-outs
    ['headers that do not end', 408, 'request_timeout', () => `GET / HTTP/1.1\r\n${HOST}`],
    ['a body that does not end', 408, 'request_timeout', () => post(JSON_TYPE, 'Content-Length: 9\r\n\r\n{')],
    // faults inside
    ...[
      ...[
        'error',
        'sync',
        'null',
        'string',
        'claims-400',
        'claims-headers',
        'on-send',
        'pre-handler',
        'header',
      ],
      ...['circular', 'response-schema'],
    ].map<Case>((fault) => [
      `a fault inside (${fault})`,
      500,
      'internal_error',
      () => `GET /fault/${fault} HTTP/1.1\r\n${HOST}\r\n`,
    ]),
  ];
  const post = (headers: string, rest: string) => `POST /v1/pets HTTP/1.1\r\n${withKey()}${headers}${rest}`;

  test.each(cases)('%s: %i %s', async (_what, status, code, request) => {
    const answer = await exchange(service.port, request());
    expect(answer.status).toBe(status);
    expectError(answer, code);
  });

  test('the cause of a fault inside is in the log', async () => {
    service.log.length = 0;
    await service.request('/fault/error', { headers: { 'x-request-id': 'find-me' } });
    const line = service.log.map((text) => JSON.parse(text)).find(({ msg }) => msg === 'request failed');
    expect(line).toMatchObject({ requestId: 'find-me', err: { message: SECRET } });
  });

  test('these cases, or tests elsewhere, produce every code that there is', () => {
    const elsewhere = [
      'invalid_cursor',
      'pet_not_found',
      'operation_removed',
      'unavailable',
      'outcome_unknown',
      'idempotency_key_reused',
      'rate_limited',
    ];
    const produced = [...cases.map(([, , code]) => code), ...elsewhere];
    expect([...new Set(produced)].sort()).toEqual(Object.keys(ERROR_STATUS).sort());
  });
});

describe('405 carries Allow', () => {
  test.each([
    ['PUT', '/v1/pets', 'GET, HEAD, POST'],
    ['DELETE', '/v1/pets/1', 'GET, HEAD'],
    ['POST', '/v1/pets/1?x=1', 'GET, HEAD'],
    ['GET', '/quickstart/messages', 'POST'],
    ['POST', '/health/live', 'GET, HEAD'],
    ['PATCH', '/health/ready', 'GET, HEAD'],
    ['DELETE', '/openapi.json', 'GET, HEAD'],
  ])('%s %s: %s', async (method, path, allow) => {
    const { status, headers } = await service.request(path, { method });
    expect([status, headers.get('allow')]).toEqual([405, allow]);
  });
});

describe('HEAD errors have no body', () => {
  test.each([
    ['/v1/pets?limit=0', 400],
    ['/v1/pets/abc', 404],
    ['/nothing', 404],
    ['/quickstart/messages', 405],
    ['/v1/pets/%ff', 400],
    ['/fault/error', 500],
    [`/${'a'.repeat(20_000)}`, 431],
  ])('%s: %i', async (path, status) => {
    const connection = new RawConnection(service.port);
    connection.send(`HEAD ${path} HTTP/1.1\r\n${withKey()}Connection: close\r\n\r\n`);
    await connection.closed();
    expect(connection.received).toMatch(new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*\r\n\r\n$`));
    expect(connection.received).not.toContain('{');
  });
});

describe('x-request-id', () => {
  test.each(['a', 'A-Za-z0-9._-', '0'.repeat(128)])("takes over a client's own: %s", async (id) => {
    for (const path of ['/v1/pets', '/nothing', '/v1/pets/%ff', '/health/live']) {
      const { headers } = await service.request(path, { headers: { 'x-request-id': id } });
      expect(headers.get('x-request-id')).toBe(id);
    }
  });

  test.each(['', 'with space', 'ü', 'a'.repeat(129), 'a,b', '{}'])('does not take over %j', async (id) => {
    const { headers } = await service.request('/health/live', { headers: { 'x-request-id': id } });
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  test.each([
    ['a body that does not end', `Content-Length: 9\r\n\r\n{`, 408],
    ['a bad chunk', `Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
  ])("is the client's own also after %s", async (_what, rest, status) => {
    const head = `POST /v1/pets HTTP/1.1\r\n${withKey()}${JSON_TYPE}X-Request-Id: mine\r\n`;
    const answer = await exchange(service.port, head + rest);
    expect([answer.status, answer.headers['x-request-id']]).toEqual([status, 'mine']);
  });

  test('differs from request to request', async () => {
    const ids = await Promise.all(
      Array.from({ length: 20 }, async () => (await service.request('/v1/pets')).headers.get('x-request-id')),
    );
    expect(new Set(ids).size).toBe(20);
  });
});

describe('on the wire', () => {
  const get = (path: string) => `GET ${path} HTTP/1.1\r\n${withKey()}\r\n`;

  test.each([
    ['garbage', 'garbage\r\n\r\n', 400],
    ['a bad chunk', `POST /v1/pets HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\nZZ\r\n`, 400],
    [
      'a bad path with a bad chunk',
      `POST /%zz HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\nZZ\r\n`,
      400,
    ],
    ['a body that does not end', `POST /v1/pets HTTP/1.1\r\n${HOST}Content-Length: 9\r\n\r\n{`, [401, 408]],
    ['CONNECT', `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`, 501],
  ])(
    'answers that are owed go out before the refusal of what follows them: %s',
    async (_what, last, status) => {
      const body = '{"name":"pipelined","categoryId":1}';
      const connection = new RawConnection(service.port);
      connection.send(
        `POST /v1/pets HTTP/1.1\r\n${withKey()}${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}` +
          get('/v1/pets?limit=1') +
          last,
      );
      await connection.closed();
      const answers = await connection.answers(3);
      expect(answers.map((answer) => answer.status)).toEqual([201, 200, expect.toBeOneOf([status].flat())]);
    },
  );

  test('a CONNECT whose connection breaks while answers are owed does not end the process', async () => {
    for (let round = 0; round < 20; round++) {
      const connection = new RawConnection(service.port);
      connection.send(`${get('/v1/pets')}CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`);
      await sleep(round % 4);
      connection.reset();
    }
    expect((await service.request('/v1/pets')).status).toBe(200);
  });

  test('a refusal after a HEAD in the same packet has a body', async () => {
    const connection = new RawConnection(service.port);
    connection.send(`HEAD /health/live HTTP/1.1\r\n${HOST}\r\ngarbage\r\n\r\n`);
    await connection.closed();
    expect(connection.received).toMatch(/"code":"invalid_request".*}$/);
  });

  test('a client of HTTP/1.0 gets no interim answer', async () => {
    const connection = new RawConnection(service.port);
    connection.send(`GET /health/live HTTP/1.0\r\n${HOST}Expect: 100-continue\r\n\r\n`);
    await connection.closed();
    expect(connection.received).toMatch(/^HTTP\/1.1 200 /);
  });

  test('an answer that was given already is not followed by a 408', async () => {
    const connection = new RawConnection(service.port);
    connection.send(`POST /v1/pets HTTP/1.1\r\n${HOST}${JSON_TYPE}Content-Length: 10\r\n\r\n{`);
    await connection.closed();
    expect((await connection.answers(2)).map(({ status }) => status)).toEqual([401]);
  });

  test('a client that closes its end right after its request gets its answer', async () => {
    const body = '{"name":"half-closed","categoryId":1}';
    const connection = new RawConnection(service.port, { allowHalfOpen: true });
    connection.sendAndClose(
      `POST /v1/pets HTTP/1.1\r\n${withKey()}${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`,
    );
    expect((await connection.answers(1)).map(({ status }) => status)).toEqual([201]);
    await connection.closed();
  });

  test('a request gets one answer, however many faults it has', async () => {
    const connection = new RawConnection(service.port);
    connection.send(`GET /%zz HTTP/1.1\r\n${HOST}Transfer-Encoding: x\r\n\r\n`);
    await connection.closed();
    expect(await connection.answers(2)).toHaveLength(1);
  });

  test('a client that resets its CONNECT does no harm', async () => {
    for (let round = 0; round < 20; round++) {
      const connection = new RawConnection(service.port);
      connection.send(`CONNECT localhost:1 HTTP/1.1\r\n${HOST}\r\n`);
      if (round % 2) await connection.answers(1);
      connection.reset();
    }
    await sleep(50);
    expect((await service.request('/health/live')).status).toBe(200);
  });

  test('a client that is still sending a body that is too large gets to read the 413', async () => {
    const connection = new RawConnection(service.port);
    connection.send(`POST /v1/pets HTTP/1.1\r\n${withKey()}${JSON_TYPE}Content-Length: 2000000\r\n\r\n`);
    for (let sent = 0; sent < 2_000_000; sent += 100_000) {
      connection.send('x'.repeat(100_000));
      await sleep(5);
    }
    connection.send(get('/health/live'));
    expect((await connection.answers(2)).map(({ status }) => status)).toEqual([413, 200]);
    connection.destroy();
  });

  test('the connection stays open after an error', async () => {
    const connection = new RawConnection(service.port);
    connection.send(`POST /v1/pets HTTP/1.1\r\n${withKey()}${JSON_TYPE}Content-Length: 1\r\n\r\n{`);
    await connection.answers(1);
    connection.send(get('/v1/pets/abc') + get('/health/live'));
    expect((await connection.answers(3)).map(({ status }) => status)).toEqual([400, 404, 200]);
    connection.destroy();
  });

  const expecting = (key: string, length: number) =>
    `POST /v1/pets HTTP/1.1\r\n${HOST}Authorization: Bearer ${key}\r\n${JSON_TYPE}` +
    `Content-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`;

  test('Expect: 100-continue is answered once the key is good', async () => {
    const body = '{"name":"patient","categoryId":1}';
    const connection = new RawConnection(service.port);
    connection.send(expecting(service.key, body.length));
    await expect.poll(() => connection.received).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    connection.send(body);
    expect((await connection.answers(1))[0]?.status).toBe(201);
    connection.destroy();
  });

  test.each([
    ['a bad key', () => expecting('x', 10), 401],
    ['a body that is too large', () => expecting(service.key, 100_000), 413],
  ])('Expect: 100-continue with %s is refused without it', async (_what, request, status) => {
    const connection = new RawConnection(service.port);
    connection.send(request());
    expect((await connection.answers(1))[0]?.status).toBe(status);
    expect(connection.received).not.toContain('100 Continue');
    connection.destroy();
  });

  test('a client that leaves in the middle of its body does no harm', async () => {
    service.log.length = 0;
    const connection = new RawConnection(service.port);
    connection.send(`POST /v1/pets HTTP/1.1\r\n${withKey()}${JSON_TYPE}Content-Length: 100\r\n\r\n{`);
    await sleep(100);
    connection.destroy();
    await sleep(100);
    expect((await service.request('/v1/pets')).status).toBe(200);
    expect(service.log.filter((line) => JSON.parse(line).level >= 50)).toEqual([]);
  });
});

describe('closing', () => {
  const startSlowService = () =>
    startService({
      extend: (app) =>
        app.get('/slow', async () => {
          await sleep(300);
          return { done: true };
        }),
    });
  const get = (path: string) => `GET ${path} HTTP/1.1\r\n${HOST}\r\n`;

  test('what is under way is answered, as the last on its connection; nothing new is let in, or carried out', async () => {
    const closing = await startSlowService();
    const connection = new RawConnection(closing.port);
    connection.send(get('/slow'));
    await sleep(100);
    const stopped = closing.stop();
    const body = '{"name":"too late","categoryId":1}';
    connection.send(
      `POST /v1/pets HTTP/1.1\r\n${HOST}Authorization: Bearer ${closing.key}\r\n${JSON_TYPE}` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    );
    expect(await connection.answers(2)).toMatchObject([
      { status: 200, headers: { connection: 'close' }, body: '{"done":true}' },
    ]);
    await connection.closed();
    await stopped;
    const reopened = await startService({ databaseUrl: closing.databaseUrl });
    expect((await reopened.request('/v1/pets')).text).toBe('[]');
    await reopened.stop();
    await expect(fetch(`${closing.origin}/health/live`)).rejects.toThrow();
  });

  test('an answer on its way to a client that reads slowly is not cut off', async () => {
    const closing = await startService();
    const pets = Array.from({ length: 100 }, (_, id) => ({
      name: '🐈'.repeat(1000),
      category_id: BigInt(id),
    }));
    for (let round = 0; round < 20; round++) await closing.db.insertInto('pets').values(pets).execute();
    const slow = net.connect(closing.port, '127.0.0.1').pause();
    const request = `GET /v1/pets?limit=100 HTTP/1.1\r\n${HOST}Authorization: Bearer ${closing.key}\r\n\r\n`;
    slow.write(request.repeat(40)); // 16 MB: more than the buffers between
    await sleep(1000);
    const stopped = closing.stop();
    await sleep(300);
    let received = '';
    slow.on('data', (bytes) => {
      received += bytes.toString('latin1');
    });
    slow.resume();
    await Promise.all([stopped, once(slow, 'close')]);
    const length = /content-length: (\d+)/.exec(received)?.[1];
    const answers = received.split('HTTP/1.1 200 OK').slice(1);
    expect(answers.length).toBeGreaterThan(1);
    for (const answer of answers) expect(answer.split('\r\n\r\n')[1]).toHaveLength(Number(length));
  });

  test('clients that never finish their request do not hold it up for longer than the time-outs', async () => {
    const config = { requestTimeoutMs: 800, requestDeadlineMs: 400 };
    const closing = await startService({ config });
    const connections = ['GET /v1', `POST /v1/pets HTTP/1.1\r\n${HOST}Content-Length: 9\r\n\r\n{`].map(
      (bytes) => {
        const connection = new RawConnection(closing.port);
        connection.send(bytes);
        return connection;
      },
    );
    await sleep(50);
    const begun = performance.now();
    await closing.stop();
    expect(performance.now() - begun).toBeLessThan(3000);
    for (const connection of connections) connection.destroy();
  });

  test('clients that were refused and do not close their end do not hold it up', async () => {
    const closing = await startSlowService();
    const connections = ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 'garbage\r\n\r\n'].map((bytes) => {
      const connection = new RawConnection(closing.port, { allowHalfOpen: true });
      connection.send(bytes);
      return connection;
    });
    await Promise.all(connections.map((connection) => connection.answers(1)));
    const begun = performance.now();
    await closing.stop();
    expect(performance.now() - begun).toBeLessThan(3000);
    for (const connection of connections) connection.destroy();
  });
});
