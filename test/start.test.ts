import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterEach, beforeAll, describe, expect, inject, test } from 'vitest';
import { killGroup, type Outcome, projectFolder, type Running, run, start } from './support/command.ts';
import { connect, createDatabase, lockTable, statementsHeldUp, urlOfDatabase } from './support/database.ts';
import { newKey, send } from './support/service.ts';
import { listenOnFreePort, RawConnection } from './support/socket.ts';

const running: Running[] = [];
afterEach(() => Promise.all(running.splice(0).map(killGroup)));

/** `npm start`, as production runs it. */
function npmStart(env: Record<string, string>): Running {
  const server = start('npm', ['start', '--silent'], {
    env: { PORT: '0', OPS_PORT: '0', SHUTDOWN_PAUSE_MS: '0', ...env },
  });
  running.push(server);
  return server;
}

async function listening(server: Running): Promise<string> {
  const address = () => /"msg":"Server listening at ([^"]+)"/.exec(server.stdout)?.[1] ?? '';
  await expect.poll(address, { timeout: 10_000 }).not.toBe('');
  return address();
}

beforeAll(async () => {
  expect(await run('npm', ['run', '--silent', 'build'])).toEqual({ exitCode: 0, stdout: '', stderr: '' });
});

describe('npm run build, npm run migrate, npm start', () => {
  test('serve an empty database', async () => {
    const DATABASE_URL = await createDatabase('empty');
    expect(await run('npm', ['run', '--silent', 'migrate'], { env: { DATABASE_URL } })).toMatchObject({
      exitCode: 0,
    });
    const server = npmStart({ DATABASE_URL });
    const origin = await listening(server);
    expect(origin).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);

    const db = connect(DATABASE_URL);
    const key = await newKey(db);
    await db.destroy();
    expect((await send(`${origin}/health/ready`)).status).toBe(200);
    const created = await send(`${origin}/v1/pets`, {
      key,
      body: '{"name":"a","categoryId":9007199254740993}',
    });
    expect([created.status, created.text]).toEqual([
      201,
      '{"id":1,"name":"a","categoryId":9007199254740993}',
    ]);
    expect((await send(`${origin}/v1/pets`, { key })).text).toBe(`[${created.text}]`);
    expect((await send(`${origin}/openapi.json`)).status).toBe(200);
  });

  test.each(['SIGTERM', 'SIGINT'] as const)('%s ends the server with exit code 0', async (signal) => {
    const server = npmStart({ DATABASE_URL: await createDatabase() });
    await listening(server);
    server.process.kill(signal);
    expect((await server.ended).exitCode).toBe(0);
    expect(server.stdout).toContain('"msg":"stopped"');
  });

  test('Ctrl-C, which npm passes on once more, lets the request under way be answered; a later signal ends it', async () => {
    const DATABASE_URL = await createDatabase();
    const db = connect(DATABASE_URL);
    const key = await newKey(db);
    const server = npmStart({ DATABASE_URL });
    const origin = await listening(server);
    const unlock = await lockTable(DATABASE_URL, 'pets');
    const answer = send(`${origin}/v1/pets`, { key, body: { name: 'under way', categoryId: 1 } });
    await sleep(300);
    process.kill(-Number(server.process.pid), 'SIGINT');
    await sleep(300);
    await unlock();
    expect((await answer).status).toBe(201);
    expect((await server.ended).stdout).toContain('"msg":"stopped"');

    const stuck = npmStart({ DATABASE_URL });
    const stuckOrigin = await listening(stuck);
    const unlockLater = await lockTable(DATABASE_URL, 'pets');
    const unanswered = send(`${stuckOrigin}/v1/pets`, { key }).catch(() => 'broken off');
    await sleep(300);
    stuck.process.kill('SIGTERM');
    await sleep(1200);
    stuck.process.kill('SIGTERM');
    expect(await unanswered).toBe('broken off');
    await stuck.ended;
    await unlockLater();
    await db.destroy();
  });

  test('each log line is JSON, one a request, without the key', async () => {
    const DATABASE_URL = await createDatabase();
    const db = connect(DATABASE_URL);
    const key = await newKey(db);
    await db.destroy();
    const server = npmStart({ DATABASE_URL, LOG_LEVEL: 'trace' });
    const origin = await listening(server);
    await send(`${origin}/v1/pets/1`, { key, headers: { 'x-request-id': 'mine' } });
    await send(`${origin}/v1/pets`, { key: `${key}x` });
    server.process.kill('SIGTERM');
    const { stdout } = await server.ended;

    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.filter(({ msg }) => msg === 'request')).toMatchObject([
      { method: 'GET', route: '/v1/pets/:petId', status: 404, requestId: 'mine', key: key.slice(0, 13) },
      { method: 'GET', route: '/v1/pets', status: 401 },
    ]);
    expect(stdout).not.toContain(key.slice(14));
  });
});

describe('on SIGTERM', () => {
  const pausing = async (env: Record<string, string> = {}) => {
    const DATABASE_URL = await createDatabase();
    const db = connect(DATABASE_URL);
    const key = await newKey(db);
    await db.destroy();
    const server = npmStart({ DATABASE_URL, SHUTDOWN_PAUSE_MS: '1500', ...env });
    const origin = await listening(server);
    return { server, origin, key, databaseUrl: DATABASE_URL, port: Number(new URL(origin).port) };
  };
  const get = (path: string, key: string) =>
    `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;

  test('it is not ready at once, and for a pause answers on open and new connections, asking to close them; then it ends with 0', async () => {
    const { server, origin, key, port } = await pausing();
    const open = new RawConnection(port);
    open.send(get('/v1/pets', key));
    expect(await open.answers(1)).toMatchObject([{ status: 200, headers: { connection: 'keep-alive' } }]);
    server.process.kill('SIGTERM');
    await expect.poll(async () => (await send(`${origin}/health/ready`)).status, { interval: 20 }).toBe(503);
    expect((await send(`${origin}/health/live`)).status).toBe(200);
    open.send(get('/v1/pets', key));
    expect((await open.answers(2))[1]).toMatchObject({ status: 200, headers: { connection: 'close' } });
    await open.closed();
    const created = await send(`${origin}/v1/pets`, { key, body: { name: 'late', categoryId: 1 } });
    expect([created.status, created.headers.get('connection')]).toEqual([201, 'close']);
    expect(server.process.exitCode).toBeNull();
    expect((await server.ended).exitCode).toBe(0);
    await expect(send(`${origin}/health/live`)).rejects.toThrow();
  });

  test('requests under way when the pause ends are answered, and what was gathered is stored', async () => {
    const { server, origin, key, databaseUrl } = await pausing({ SHUTDOWN_PAUSE_MS: '300' });
    const unlock = await lockTable(databaseUrl, 'pets');
    const answers = Array.from({ length: 50 }, (_, index) =>
      send(`${origin}/v1/pets`, { key, body: { name: `under way ${index}`, categoryId: 1 } }),
    );
    await expect.poll(() => statementsHeldUp(databaseUrl)).toBe(1);
    server.process.kill('SIGTERM');
    await sleep(700);
    await unlock();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(50).fill(201));
    expect((await server.ended).exitCode).toBe(0);
    const db = connect(databaseUrl);
    expect(await db.selectFrom('pets').selectAll().execute()).toHaveLength(50);
    await db.destroy();
  });

  test('a request that was under way is answered with Connection: close, too', async () => {
    const { server, key, port } = await pausing();
    const body = '{"name":"under way","categoryId":1}';
    const connection = new RawConnection(port);
    connection.send(
      `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    );
    await sleep(200);
    server.process.kill('SIGTERM');
    await sleep(200);
    connection.send(body.slice(5));
    expect(await connection.answers(1)).toMatchObject([{ status: 201, headers: { connection: 'close' } }]);
    await connection.closed();
    expect((await server.ended).exitCode).toBe(0);
  });

  test('it ends after SHUTDOWN_TIMEOUT_MS, with exit code 1 and a clear line, whatever is under way', async () => {
    const { server, key, port } = await pausing({ SHUTDOWN_PAUSE_MS: '0', SHUTDOWN_TIMEOUT_MS: '1000' });
    const slow = new RawConnection(port);
    slow.send(get('/v1/pets', key).slice(0, -4));
    await sleep(200);
    const begun = performance.now();
    server.process.kill('SIGTERM');
    const { exitCode, stdout } = await server.ended;
    expect(exitCode).toBe(1);
    expect(stdout).toContain('not stopped in time');
    expect(performance.now() - begun).toBeLessThan(3000);
    slow.destroy();
  });

  test.each([
    ['node is its child, as below the init of a container', ['node', 'dist/main.js']],
    ['npm and its shell stand between', ['npm', 'start', '--silent']],
  ])('it answers what is under way and ends with 0 where %s', async (_what, command) => {
    const DATABASE_URL = await createDatabase();
    const db = connect(DATABASE_URL);
    const key = await newKey(db);
    await db.destroy();
    const env = { DATABASE_URL, PORT: '0', OPS_PORT: '0', SHUTDOWN_PAUSE_MS: '200' };
    const server = start('tools/node26/run', command, { env });
    running.push(server);
    const origin = await listening(server);
    const unlock = await lockTable(DATABASE_URL, 'pets');
    const answer = send(`${origin}/v1/pets`, { key, body: { name: 'under way', categoryId: 1 } });
    await expect.poll(() => statementsHeldUp(DATABASE_URL)).toBe(1);
    server.process.kill('SIGTERM');
    await sleep(500);
    await unlock();
    expect((await answer).status).toBe(201);
    expect(await server.ended).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('"stopped"') });
  });
});

describe('the log, which is written many lines at a time, is on stdout whole when the process ends', () => {
  const requestIds = ({ stdout }: Outcome) =>
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg === 'request')
      .map(({ requestId }) => requestId);
  /** More than what the log gathers before it writes, so that some lines were written and some were not. */
  const ids = Array.from({ length: 150 }, (_, index) => `request-${index}`);
  const sendAll = async (origin: string) => {
    for (const id of ids) await send(`${origin}/health/live`, { headers: { 'x-request-id': id } });
  };

  test('by SIGTERM', async () => {
    const server = npmStart({ DATABASE_URL: await createDatabase() });
    await sendAll(await listening(server));
    server.process.kill('SIGTERM');
    const outcome = await server.ended;
    expect(requestIds(outcome)).toEqual(ids);
    expect(outcome.stdout).toMatch(/"msg":"stopping"[^\n]*\n.*"msg":"stopped"[^\n]*\n$/);
  });

  test('by an exit in the middle of requests', async () => {
    const DATABASE_URL = await createDatabase();
    const db = connect(DATABASE_URL);
    const key = await newKey(db);
    await db.destroy();
    const server = npmStart({ DATABASE_URL });
    const origin = await listening(server);
    const unlockPets = await lockTable(DATABASE_URL, 'pets');
    const unlockMessages = await lockTable(DATABASE_URL, 'messages');
    const held = ids.map((id) => send(`${origin}/v1/pets`, { key, headers: { 'x-request-id': id } }));
    const stuck = send(`${origin}/quickstart/messages`, { key, body: { message: 'stuck' } }).catch(
      () => 'broken off',
    );
    await expect.poll(() => statementsHeldUp(DATABASE_URL)).toBe(2);
    server.process.kill('SIGTERM');
    await sleep(1200); // a signal that comes later than a second means "at once"
    await unlockPets();
    await Promise.all(held);
    server.process.kill('SIGTERM');
    const outcome = await server.ended;
    expect(await stuck).toBe('broken off');
    expect(requestIds(outcome).toSorted()).toEqual(ids.toSorted());
    expect(outcome.stdout).not.toContain('"msg":"stopped"');
    await unlockMessages();
  });
});

describe('where stdout takes no more lines', () => {
  /** The server with its stdout given to somebody, on a port that it cannot tell. */
  const startWith = async (stdout: 'pipe' | number) => {
    const DATABASE_URL = await createDatabase();
    const { server: placeholder, port } = await listenOnFreePort();
    placeholder.close();
    await once(placeholder, 'close');
    const env = { ...process.env, DATABASE_URL, PORT: `${port}`, OPS_PORT: '0', SHUTDOWN_PAUSE_MS: '0' };
    const server = spawn('tools/node26/run', ['node', 'dist/main.js'], {
      cwd: projectFolder,
      env,
      stdio: ['ignore', stdout, 'ignore'],
    });
    const isLive = async () => {
      const answer = await send(`http://127.0.0.1:${port}/health/live`).catch(() => undefined);
      return answer?.status;
    };
    await expect.poll(isLive, { timeout: 10_000 }).toBe(200);
    for (let request = 0; request < 1000; request++) expect(await isLive()).toBe(200);
    const begun = performance.now();
    server.kill('SIGTERM');
    const [exitCode] = await once(server, 'exit');
    return { exitCode, ms: performance.now() - begun };
  };

  test.skipIf(!existsSync('/dev/full'))(
    'since its disk is full, requests are answered, and SIGTERM ends it with 0',
    async () => {
      const full = openSync('/dev/full', 'w');
      expect((await startWith(full)).exitCode).toBe(0);
      closeSync(full);
    },
  );

  test('since nobody reads it, requests are answered, and SIGTERM ends it all the same', async () => {
    expect((await startWith('pipe')).ms).toBeLessThan(5000);
  });
});

describe('npm start refuses with one clear line and exit code 1', () => {
  const refusal = async (env: Record<string, string>) => {
    const { exitCode, stdout, stderr } = await npmStart(env).ended;
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^animal-store: [^\n]+\n$/);
    return stderr;
  };
  test('no DATABASE_URL', async () => {
    expect(await refusal({})).toContain('DATABASE_URL is required');
  });

  test('bad settings, all of them named', async () => {
    expect(await refusal({ DATABASE_URL: 'x', PORT: 'high', KEY_ENVIRONMENT: 'prod' })).toMatch(
      /DATABASE_URL must .*PORT must .*KEY_ENVIRONMENT must/,
    );
  });

  test('a database that cannot be reached', async () => {
    expect(await refusal({ DATABASE_URL: 'postgres://u:sesame@127.0.0.1:1/x' })).toMatch(
      /^(?!.*sesame).*database.* cannot be reached: .*ECONNREFUSED/,
    );
  });

  test('a database that does not answer', async () => {
    const { server: silent, port } = await listenOnFreePort();
    const line = await refusal({
      DATABASE_URL: `postgres://u@127.0.0.1:${port}/x`,
      REQUEST_DEADLINE_MS: '2000',
    });
    expect(line).toMatch(/cannot be reached: .*timeout/);
    silent.close();
  });

  test('a host name that does not exist', async () => {
    expect(await refusal({ DATABASE_URL: 'postgres://u@nowhere.invalid/x' })).toContain('cannot be reached');
  });

  test('a database that does not exist', async () => {
    const name = `missing_${randomBytes(4).toString('hex')}`;
    expect(await refusal({ DATABASE_URL: urlOfDatabase(name) })).toMatch(
      new RegExp(`refuses: database "${name}" does not exist`),
    );
  });

  test('a user that the database does not know', async () => {
    const url = new URL(inject('serverUrl'));
    url.username = 'stranger';
    url.password = 'sesame';
    expect(await refusal({ DATABASE_URL: url.href })).toMatch(/^(?!.*sesame).*refuses: .*"stranger"/);
  });

  test('a schema that was not migrated', async () => {
    expect(await refusal({ DATABASE_URL: await createDatabase('empty') })).toContain('run "npm run migrate"');
  });

  test('a schema that is newer', async () => {
    const DATABASE_URL = await createDatabase();
    const db = connect(DATABASE_URL);
    await sql`INSERT INTO kysely_migration VALUES ('9999_later', 'now')`.execute(db);
    await db.destroy();
    expect(await refusal({ DATABASE_URL })).toContain('newer than this version');
  });

  test('a port that is taken', async () => {
    const { server: taken, port } = await listenOnFreePort();
    expect(await refusal({ DATABASE_URL: await createDatabase(), PORT: `${port}` })).toMatch(
      /cannot listen .*EADDRINUSE.*: check HOST and PORT$/m,
    );
    taken.close();
  });

  test('an operations port that is taken', async () => {
    const { server: taken, port } = await listenOnFreePort();
    expect(await refusal({ DATABASE_URL: await createDatabase(), OPS_PORT: `${port}` })).toMatch(
      /cannot listen .*EADDRINUSE.*: check HOST and OPS_PORT$/m,
    );
    taken.close();
  });

  test('a HOST that does not exist', async () => {
    const line = await refusal({ DATABASE_URL: await createDatabase(), HOST: 'nowhere.invalid' });
    expect(line).toMatch(/cannot listen .*nowhere\.invalid.*: check HOST and /);
  });

  test('sslmode=require where the database has no TLS', async () => {
    const line = await refusal({ DATABASE_URL: `${await createDatabase()}?sslmode=require` });
    expect(line).toContain('refuses: The server does not support SSL connections');
  });

  test('an address that is not of this machine', async () => {
    expect(await refusal({ DATABASE_URL: await createDatabase(), HOST: '192.0.2.1' })).toContain(
      'cannot listen',
    );
  });
});
