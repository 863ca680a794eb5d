import { hash, randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { ERROR_STATUS } from '../src/http/errors.ts';
import { generateKey, hashKey, hintOf } from '../src/keys/format.ts';
import { killGroup, type Outcome, type Running, run, start } from './support/command.ts';
import { createDatabase, lockTable, statementsHeldUp } from './support/database.ts';
import { inDatabase } from './support/postgres.ts';
import { DatabaseProxy } from './support/proxy.ts';
import { exchange, type RawAnswer, RawConnection } from './support/socket.ts';

/**
 * The service and its commands, as they run in production but with everything logged, are driven through every kind of
 * answer and fault. Then all that they wrote is searched: what they said on stdout and stderr, each answer, the metrics,
 * each column of the database.
 */

/** Everything that was written, by the place where it was found. */
const written = new Map<string, string>();
const note = (place: string, text: string) => written.set(place, `${written.get(place) ?? ''}\n${text}`);

const TRACE_BYTES = 12;

/**
 * What would give a secret away: any 12 bytes of it in a row, plain, in hex, as the numbers of a Buffer's JSON, or in
 * base64, where 12 bytes are 16 characters of their own wherever in a text they begin.
 */
function tracesOf(secret: Buffer): string[] {
  const offsets = Array.from({ length: secret.length - TRACE_BYTES + 1 }, (_, offset) => offset);
  return offsets.flatMap((offset) => {
    const part = secret.subarray(offset, offset + TRACE_BYTES);
    return [
      ...(['latin1', 'hex', 'base64', 'base64url'] as const).map((form) => part.toString(form)),
      part.join(','),
    ];
  });
}

/** The places, of some or of all, where a secret left a trace. */
function placesOf(secret: Buffer): string[] {
  const traces = tracesOf(secret);
  return [...written]
    .filter(([, text]) => traces.some((trace) => text.includes(trace)))
    .map(([place]) => place);
}
const placesOfText = (secret: string) => placesOf(Buffer.from(secret));

/** What of a key is secret: all but its hint. */
const secretOf = (key: string) => key.slice(hintOf(key).length);

const suffix = randomBytes(4).toString('hex');
const role = `keeper_of_secrets_${suffix}`;
const passwordCore = randomBytes(24).toString('hex');
const password = `@/:%?#& ${passwordCore}`;

let databaseUrl: string; // as the role of the tests
let databaseUrlOfRole: string;
let proxy: DatabaseProxy;
let server: Running;
let port: number;

/** Keys that clients send as keys, good and bad: they must leave no trace. */
const keys = { good: '', limited: '', revoked: '', expired: '', unknown: generateKey('test'), mistyped: '' };
/** A key that a client sends as its own data: what it asks to store is stored. */
let dataKey: string;
/** A key that a client sends as the id of a request. */
const requestIdKey = generateKey('test');
/** What operators type in the wrong place. */
const operatorsKey = generateKey('test');
const operatorsPassword = randomBytes(24).toString('hex');

const RATE_LIMIT = 200;

const admin = (statement: string) => inDatabase(databaseUrl, (client) => client.query(statement));
const terminateConnections = () =>
  admin(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`);

function urlAsRole(base: string, secret = password): string {
  const url = new URL(base);
  url.username = role;
  url.password = encodeURIComponent(secret);
  return url.href;
}

/** Runs a command of operators. What it says is noted, but for the key that it is asked for. */
async function cli(args: string[], { isKeyExpected = false } = {}): Promise<Outcome> {
  const env = { DATABASE_URL: databaseUrlOfRole, KEY_ENVIRONMENT: 'test', LOG_LEVEL: 'trace' };
  const outcome = await run('tools/node26/run', ['node', 'src/cli.ts', ...args], { env });
  const key = isKeyExpected ? outcome.stdout.trim() : '';
  note('commands', `${outcome.stdout.slice(key.length)}${outcome.stderr}`);
  return outcome;
}

async function createKey(...args: string[]): Promise<string> {
  const outcome = await cli(['keys', 'create', '--account', 'tester', ...args], { isKeyExpected: true });
  expect(outcome).toMatchObject({ exitCode: 0 });
  return outcome.stdout.trim();
}

/** The server from source, since another test makes `dist/` anew at the same time. */
const startServer = (env: Record<string, string>) =>
  start('tools/node26/run', ['node', 'src/main.ts'], { env: { PORT: '0', OPS_PORT: '0', ...env } });

/** What a server that cannot start says. */
async function noteFailedStart(what: string, env: Record<string, string>): Promise<void> {
  const { exitCode, stdout, stderr } = await startServer({ LOG_LEVEL: 'trace', ...env }).ended;
  expect({ what, exitCode }).toEqual({ what, exitCode: 1 });
  note(`start: ${what}`, stdout + stderr);
}

const codesSeen = new Set<string>();

function noteAnswer(what: string, { status, headers, body }: RawAnswer): void {
  note(`answer: ${what}`, `${status} ${JSON.stringify(headers)} ${body}`);
  const code = status >= 400 && body !== '' ? String(JSON.parse(body).code) : '';
  if (code !== '') codesSeen.add(code);
}

/** Sends bytes; the answer is noted, and has this status. */
async function ask(what: string, status: number, bytes: string): Promise<void> {
  const answer = await exchange(port, bytes);
  expect({ what, status: answer.status }).toEqual({ what, status });
  noteAnswer(what, answer);
}

const head = (line: string, key: string) => `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`;
const get = (path: string, key = keys.good) => `${head(`GET ${path}`, key)}\r\n`;
const post = (path: string, body: unknown, headers = '') => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const length = Buffer.byteLength(text);
  const type = 'Content-Type: application/json\r\n';
  return `${head(`POST ${path}`, keys.good)}${type}${headers}Content-Length: ${length}\r\n\r\n${text}`;
};
const pet = { name: 'a', categoryId: 1 };

beforeAll(async () => {
  databaseUrl = await createDatabase();
  databaseUrlOfRole = urlAsRole(databaseUrl);
  await admin(`
    CREATE ROLE ${role} LOGIN PASSWORD ${pg.escapeLiteral(password)};
    GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role};
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${role};
    ALTER ROLE ${role} SET log_parameter_max_length_on_error = -1`); // PostgreSQL's errors then quote parameters
  [keys.good, keys.limited, keys.revoked, keys.expired, dataKey] = await Promise.all([
    createKey(),
    createKey(),
    createKey('--name', 'revoked'),
    createKey('--name', 'expired'),
    createKey(),
  ]);
  await admin(`
    UPDATE api_keys SET revoked_at = now() WHERE name = 'revoked';
    UPDATE api_keys SET expires_at = now() WHERE name = 'expired'`);
  keys.mistyped = keys.good.replace(/.$/, (last) => (last === '0' ? '1' : '0'));

  proxy = await DatabaseProxy.start(databaseUrlOfRole);
  server = startServer({
    DATABASE_URL: proxy.url,
    LOG_LEVEL: 'trace',
    REQUEST_TIMEOUT_MS: '1000',
    REQUEST_DEADLINE_MS: '3000',
    SHUTDOWN_PAUSE_MS: '0',
    RATE_LIMIT_PER_MINUTE: `${RATE_LIMIT}`,
  });
  port = await portIn(/"msg":"Server listening at [^"]+:(\d+)"/);
  const opsPort = await portIn(/"msg":"Metrics at [^"]+:(\d+)\//);

  await Promise.all([
    answersOfOperations(),
    refusals(),
    keysInWrongPlaces(),
    faultOfLastUsed(),
    wrongCommands(),
    failedStarts(),
  ]);
  await tooManyRequests();
  await faultsOfDatabase();
  await internalErrors();

  const { rows } = await admin('SELECT query FROM pg_stat_activity WHERE datname = current_database()');
  note('pg_stat_activity', rows.map(({ query }) => query).join('\n'));
  for (const path of ['/metrics', `/${keys.good}`]) {
    const { headers, body } = await exchange(opsPort, get(path));
    note('operations port', JSON.stringify(headers) + body);
  }
  server.process.kill('SIGTERM');
  const { exitCode, stdout, stderr } = await server.ended;
  expect(exitCode).toBe(0);
  note('stdout', stdout);
  note('stderr', stderr);
  await noteDatabase();
});

afterAll(async () => {
  await killGroup(server);
  await proxy.goAway();
  await inDatabase(inject('serverUrl'), async (client) => {
    await client.query(`DROP DATABASE ${new URL(databaseUrl).pathname.slice(1)} WITH (FORCE)`); // and the grants in it
    await client.query(`DROP ROLE ${role}`);
  });
});

/** The number in a line of the server's log. */
async function portIn(line: RegExp): Promise<number> {
  return Number(await vi.waitUntil(() => line.exec(server.stdout)?.[1], { timeout: 10_000 }));
}

async function answersOfOperations(): Promise<void> {
  const keyed = { name: dataKey, categoryId: 2 };
  const idempotent = `Idempotency-Key: ${dataKey}\r\n`;
  await ask('create', 201, post('/v1/pets', pet));
  await ask('create the data', 201, post('/v1/pets', keyed, idempotent));
  await ask('create the data again', 201, post('/v1/pets', keyed, idempotent));
  await ask('another body', 422, post('/v1/pets', pet, idempotent));
  await ask('queue the data', 202, post('/quickstart/messages', { message: dataKey }, idempotent));
  await ask('read the data', 200, get('/v1/pets?limit=1'));
  await ask('get', 200, get('/v1/pets/1'));
  for (const path of ['/health/live', '/health/ready', '/openapi.json']) await ask(path, 200, get(path));
}

/** Each answer that a good key cannot help. */
async function refusals(): Promise<void> {
  await Promise.all([
    ask('no key', 401, 'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'),
    ...Object.entries(keys)
      .filter(([what]) => what !== 'good' && what !== 'limited')
      .map(([what, key]) => ask(`a key that is ${what}`, 401, get('/v1/pets', key))),
    ask('a bad query', 400, get('/v1/pets?limit=0')),
    ask('a bad cursor', 400, get('/v1/pets?cursor=a')),
    ask('no such animal', 404, get('/v1/pets/0')),
    ask('no such route', 404, get('/v1/nothing')),
    ask('no such method', 405, `${head('DELETE /v1/pets', keys.good)}\r\n`),
    ask('no JSON', 400, post('/v1/pets', '{')),
    ask('a large body', 413, post('/v1/pets', 'x'.repeat(65_537))),
    ask('half a head', 408, head('GET /v1/pets', keys.good)),
    ask('half a body', 408, post('/v1/pets', pet).slice(0, -1)),
    ask('CONNECT', 501, `${head('CONNECT a:443', keys.good)}\r\n`),
  ]);
}

/** Clients err: the key stands where none belongs, or where the service refuses the text around it. */
async function keysInWrongPlaces(): Promise<void> {
  const key = keys.good;
  const without = (headers: string, path = '/v1/pets') =>
    `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n`;
  const encoded = Buffer.from(`${key}:`).toString('base64');
  const withHeader = (header: string) => post('/v1/pets', pet, `${header}\r\n`);
  await Promise.all([
    ask('no scheme', 401, without(`Authorization: ${key}`)),
    ask('Basic', 401, without(`Authorization: Basic ${encoded}`)),
    ask('another scheme', 401, without(`Authorization: Token ${key}`)),
    ask('text after the key', 401, without(`Authorization: Bearer ${key} ${key}`)),
    ask('quotes', 401, without(`Authorization: Bearer "${key}"`)),
    ask('two headers', 401, without(`Authorization: Bearer ${key}\r\nAuthorization: Bearer ${key}`)),
    ask('lower case', 200, without(`authorization:bearer ${key}`)),
    ask('upper case', 200, without(`AUTHORIZATION: BEARER   ${key}`)),
    ask('other headers', 401, without(`X-Api-Key: ${key}\r\nCookie: key=${key}\r\nUser-Agent: ${key}`)),
    ask('Proxy-Authorization', 401, without(`Proxy-Authorization: Bearer ${key}`)),
    ask('in the query', 401, without('', `/v1/pets?api_key=${key}`)),
    ask('as a limit', 400, get(`/v1/pets?limit=${key}`)),
    ask('as a status', 400, get(`/v1/pets?status=${key}`)),
    ask('as a cursor', 400, get(`/v1/pets?cursor=${key}`)),
    ask('as a cursor in base64', 400, get(`/v1/pets?cursor=${encoded.replaceAll('=', '')}`)),
    ask('as a petId', 404, get(`/v1/pets/${key}`)),
    ask('as a path', 404, get(`/v1/${key}`)),
    ask('as a path without authentication', 404, without('', `/${key}`)),
    ask('in a path that cannot be decoded', 400, get(`/v1/%ff/${key}`)),
    ask('in an absolute address', 404, get(`http://${key}@a/${key}`)),
    ask('as an expectation', 417, withHeader(`Expect: ${key}`)),
    ask('as a content encoding', 415, withHeader(`Content-Encoding: ${key}`)),
    ask('as a charset', 415, post('/v1/pets', pet).replace('/json', `/json; charset=${key}`)),
    ask('as a media type', 415, post('/v1/pets', pet).replace('/json', `/${key}`)),
    ask('as a second Host', 400, withHeader(`Host: ${key}`)),
    ask('as an Origin', 201, withHeader(`Origin: https://${key}`)),
    ask('in an Upgrade', 201, withHeader(`Upgrade: ${key}`)),
    ask('in an Idempotency-Key with a space', 400, withHeader(`Idempotency-Key: ${key} ${key}`)),
    ask('in JSON that does not end', 400, post('/v1/pets', `{"name":"${key}`)),
    ask('as a categoryId', 400, post('/v1/pets', { ...pet, categoryId: key })),
    ask('as the status of an animal', 400, post('/v1/pets', { ...pet, status: key })),
    ask('as an unknown member', 400, post('/v1/pets', { [key]: key })),
    ask('as a member that is dropped', 201, post('/v1/pets', { ...pet, [key]: key, apiKey: key })),
    ask('as the whole body', 400, post('/v1/pets', JSON.stringify(key))),
    ask('in a name that is too long', 400, post('/v1/pets', { ...pet, name: key.repeat(25) })),
    ask('as a method', 400, `${key} /v1/pets HTTP/1.1\r\n\r\n`),
    ask('as a version', 400, `GET /v1/pets ${key}\r\n\r\n`),
    ask('in a header without a colon', 400, `${head('GET /v1/pets', key)}Bearer ${key}\r\n\r\n`),
    ask('as a Content-Length', 400, `${head('POST /v1/pets', key)}Content-Length: ${key}\r\n\r\n`),
    ask('as a transfer coding', 400, `${head('POST /v1/pets', key)}Transfer-Encoding: ${key}\r\n\r\n`),
    ask('in a head that is too large', 431, get('/v1/pets', key.repeat(500))),
    ask('as a host to connect to', 501, `${head(`CONNECT ${key}:443`, key)}\r\n`),
    ask('as an x-request-id', 200, `${head('GET /v1/pets', key)}X-Request-Id: ${requestIdKey}\r\n\r\n`),
  ]);
}

/** The time of a key's last use cannot be written. */
async function faultOfLastUsed(): Promise<void> {
  await admin(`REVOKE UPDATE ON api_keys FROM ${role}`);
  await vi.waitUntil(() => server.stdout.includes('could not note when keys were last used'), {
    timeout: 5000,
  });
  await admin(`GRANT UPDATE ON api_keys TO ${role}`);
}

/** Operators err: a key, or a connection string, stands where none belongs. */
async function wrongCommands(): Promise<void> {
  const url = `postgres://operator:${operatorsPassword}@localhost/animals`;
  const wrong = [
    ['keys', 'revoke', operatorsKey],
    ['keys', operatorsKey],
    ['keys', 'create', operatorsKey],
    ['keys', 'create', '--account', 'a', '--expires-in', operatorsKey],
    ['keys', 'list', `--${operatorsKey}`],
    ['accounts', 'create', 'a', operatorsKey],
    ['keys', 'list', url],
    ['migrate', url],
    ['migrate', `--database-url=${url}`],
  ];
  for (const args of wrong) expect((await cli(args)).exitCode).toBe(1);
}

async function failedStarts(): Promise<void> {
  const withPassword = (text: string) => text.replace('PASSWORD', passwordCore);
  const starts = {
    'a password that is wrong': urlAsRole(databaseUrl, `${passwordCore}x`),
    'a database that is away': withPassword('postgres://u:PASSWORD@127.0.0.1:1/x'),
    'no URL of PostgreSQL': withPassword('mysql://u:PASSWORD@localhost/x'),
    'a password that is not encoded': withPassword('postgres://u:PASSWORD%zz@localhost/x'),
    'only a password': passwordCore,
  };
  for (const [what, DATABASE_URL] of Object.entries(starts)) await noteFailedStart(what, { DATABASE_URL });
  await noteFailedStart('the password in other settings', {
    ...{ DATABASE_URL: databaseUrlOfRole, PORT: passwordCore, LOG_LEVEL: passwordCore },
    ...{ HOST: databaseUrlOfRole, CORS_ORIGINS: withPassword('https://u:PASSWORD@localhost') },
  });
}

async function tooManyRequests(): Promise<void> {
  const connection = new RawConnection(port);
  connection.send(get('/v1/pets?limit=1', keys.limited).repeat(RATE_LIMIT + 1));
  const last = (await connection.answers(RATE_LIMIT + 1)).at(-1);
  connection.destroy();
  expect(last?.status).toBe(429);
  if (last !== undefined) noteAnswer('too many requests', last);
}

async function faultsOfDatabase(): Promise<void> {
  const create = (idempotencyKey: string) => post('/v1/pets', pet, `Idempotency-Key: ${idempotencyKey}\r\n`);
  const unlock = await lockTable(databaseUrl, 'pets');
  await ask('a locked table', 503, get('/v1/pets'));
  const broken = ask('a connection that broke in a write', 503, create('broken'));
  await vi.waitUntil(async () => (await statementsHeldUp(databaseUrl)) === 1, { interval: 10 });
  await terminateConnections();
  await broken;
  await unlock();

  await proxy.goAway();
  for (const bytes of [get('/v1/pets'), create('away'), get('/health/ready')]) await ask('away', 503, bytes);
  await proxy.comeBack();

  await admin(`ALTER ROLE ${role} PASSWORD 'another'`);
  await terminateConnections();
  await ask('a password that has changed', 503, get('/v1/pets'));
  await ask('not ready', 503, get('/health/ready'));
  await admin(`ALTER ROLE ${role} PASSWORD ${pg.escapeLiteral(password)}`);
  await ask('a password that is good again', 200, get('/v1/pets'));
}

/** Statements that fail for reasons that nobody foresaw, some before and some after their parameters arrived. */
async function internalErrors(): Promise<void> {
  const data = { name: dataKey, categoryId: 1 };
  const idempotent = `Idempotency-Key: failing-${dataKey}\r\n`;
  const readsAndWrites = [
    get('/v1/pets'),
    post('/v1/pets', data),
    post('/v1/pets', data, idempotent),
    post('/quickstart/messages', { message: dataKey }, idempotent),
  ];
  const faults = [
    ['ALTER TABLE api_keys RENAME TO away', 'ALTER TABLE away RENAME TO api_keys'],
    ['ALTER TABLE api_keys RENAME hash TO away', 'ALTER TABLE api_keys RENAME away TO hash'],
    [`REVOKE ALL ON api_keys FROM ${role}`, `GRANT ALL ON api_keys TO ${role}`],
    [
      'ALTER TABLE pets RENAME name TO away; ALTER TABLE messages RENAME TO away',
      'ALTER TABLE pets RENAME away TO name; ALTER TABLE away RENAME TO messages',
    ],
    [`REVOKE ALL ON pets, messages FROM ${role}`, `GRANT ALL ON pets, messages TO ${role}`],
    [
      'ALTER TABLE idempotency_keys ADD CHECK (false) NOT VALID; ALTER TABLE pets ADD CHECK (false) NOT VALID',
      'ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_check; ALTER TABLE pets DROP CONSTRAINT pets_check',
    ],
  ];
  for (const [fault = '', repair = ''] of faults) {
    await admin(fault);
    const answers = await Promise.all(readsAndWrites.map((bytes) => exchange(port, bytes)));
    for (const answer of answers) noteAnswer(fault, answer);
    expect({ fault, statuses: answers.map(({ status }) => status) }).toMatchObject({
      statuses: expect.arrayContaining([500]),
    });
    await admin(repair);
  }
  await admin('ALTER TABLE kysely_migration RENAME TO away');
  await ask('a schema that is not there', 503, get('/health/ready'));
}

/** Each column of each table. */
async function noteDatabase(): Promise<void> {
  const { rows } = await admin(`
    SELECT relname AS table, attname AS column FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0`);
  for (const { table, column } of rows) {
    const { rows: values } = await admin(`SELECT "${column}"::text AS value FROM "${table}"`);
    note(`${table}.${column}`, values.map(({ value }) => value).join('\n'));
  }
}

test('the run saw every error that a request can cause before the sunset of 2030', () => {
  const codes = Object.keys(ERROR_STATUS).filter((code) => code !== 'operation_removed');
  expect([...codesSeen].sort()).toEqual(codes.sort());
});

test('the search finds what is there, and the log has faults of each kind', () => {
  expect(placesOfText(hintOf(keys.good))).toEqual(expect.arrayContaining(['stdout', 'api_keys.hint']));
  note('a place for the search', Buffer.from(`xx${keys.good}`).toString('base64'));
  expect(placesOfText(secretOf(keys.good))).toEqual(['a place for the search']);
  written.delete('a place for the search');
  for (const message of [
    'request failed',
    'request refused',
    'not ready',
    'an idle database connection was lost',
  ]) {
    expect(written.get('stdout')).toContain(`"msg":"${message}"`);
  }
});

describe('of a key that a client sends, nothing but the hint is written anywhere:', () => {
  test.each(Object.keys(keys) as (keyof typeof keys)[])('one that is %s', (kind) => {
    expect(placesOfText(secretOf(keys[kind]))).toEqual([]);
  });

  test('one that it sends as an x-request-id', () => {
    expect(placesOfText(secretOf(requestIdKey))).toEqual([]);
  });
});

test('the SHA-256 of a key is in api_keys.hash alone', () => {
  for (const key of [keys.good, keys.limited, keys.revoked, keys.expired, dataKey]) {
    expect(placesOf(hashKey(key))).toEqual(['api_keys.hash']);
  }
  for (const key of [keys.unknown, keys.mistyped]) expect(placesOf(hashKey(key))).toEqual([]);
});

test('a key that a client stores as its own data is answered, is stored where it asked for, and is in no log', () => {
  const places = placesOfText(secretOf(dataKey)).filter((place) => !place.startsWith('answer: '));
  expect(places.sort()).toEqual(['idempotency_keys.key', 'messages.message', 'pets.name']);
});

test('the password of the database is written nowhere', () => {
  expect(placesOfText(passwordCore)).toEqual([]);
  expect(placesOf(hash('sha256', password, 'buffer'))).toEqual([]);
});

test('a key, or a password, that an operator types in the wrong place of a command is not repeated', () => {
  expect(placesOfText(secretOf(operatorsKey))).toEqual([]);
  expect(placesOfText(operatorsPassword)).toEqual([]);
});
