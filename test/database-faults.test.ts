import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterEach, describe, expect, test } from 'vitest';
import { createKey, revokeKey, rotateKey } from '../src/keys/commands.ts';
import { hashKey } from '../src/keys/format.ts';
import { findActiveKey } from '../src/keys/repository.ts';
import { connect, createDatabase, lockTable } from './support/database.ts';
import { inDatabase } from './support/postgres.ts';
import { DatabaseProxy } from './support/proxy.ts';
import { type Answer, newKey, type Service, type ServiceOptions, startService } from './support/service.ts';
import { RawConnection } from './support/socket.ts';

let service: Service;
afterEach(() => service.stop());

const startImpatient = (options: ServiceOptions = {}) =>
  startService({ ...options, config: { requestDeadlineMs: 2000, databasePoolSize: 3 } });
const add = (name: string) => service.request('/v1/pets', { body: { name, categoryId: 1 } });
const countPets = async (name: string) => {
  const { count } = await service.db
    .selectFrom('pets')
    .select(({ fn }) => fn.countAll<bigint>().as('count'))
    .where('name', '=', name)
    .executeTakeFirstOrThrow();
  return Number(count);
};
async function terminateConnections(databaseUrl: string): Promise<void> {
  const db = connect(databaseUrl);
  await sql`
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()`.execute(db);
  await db.destroy();
}

const unavailable = { code: 'unavailable', message: expect.any(String), status: 503 };
const outcomeUnknown = { code: 'outcome_unknown', message: expect.any(String), status: 503 };

describe('the process outlives its database connections', () => {
  test('when they are terminated under load, requests are answered or refused, and it goes on', async () => {
    service = await startService();
    const statuses = new Set<number>();
    const until = Date.now() + 1500;
    const client = async () => {
      while (Date.now() < until) statuses.add((await add('under load')).status);
    };
    const kill = async () => {
      while (Date.now() < until) {
        await terminateConnections(service.databaseUrl);
        await sleep(50);
      }
    };
    await Promise.all([kill(), ...Array.from({ length: 8 }, client)]);
    expect([...statuses].filter((status) => status !== 201 && status !== 503)).toEqual([]);
    expect((await add('after')).status).toBe(201);
  });

  test('a connection that fell silent is not used again', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startImpatient({ databaseUrl: proxy.url });
    expect((await add('before')).status).toBe(201);
    proxy.fallSilent();
    expect((await service.request('/v1/pets')).json).toEqual(unavailable);
    expect((await add('after')).status).toBe(201);
    await service.stop();
    await proxy.goAway();
  });
});

describe('503 says what became of a write', () => {
  test('unavailable: a statement that took too long was cancelled, and nothing was stored', async () => {
    service = await startImpatient();
    const unlock = await lockTable(service.databaseUrl, 'pets');
    const answers = await Promise.all(['locked', 'locked', 'locked'].map(add));
    await unlock();
    for (const { json, headers } of answers) {
      expect(json).toEqual(unavailable);
      expect(headers.get('retry-after')).toMatch(/^\d+$/);
    }
    await sleep(200);
    expect(await countPets('locked')).toBe(0);
    expect((await add('locked')).status).toBe(201);
  });

  test('unavailable: a database that only reads stores nothing', async () => {
    service = await startService();
    const database = new URL(service.databaseUrl).pathname.slice(1);
    await sql`ALTER DATABASE ${sql.id(database)} SET default_transaction_read_only = on`.execute(service.db);
    await terminateConnections(service.databaseUrl); // new ones only read, as those to a standby do
    await expect.poll(async () => (await add('standby')).json).toEqual(unavailable);
    expect((await service.request('/v1/pets')).text).toBe('[]');
  });

  test('unavailable: while a database only reads, writes do not have all connections opened anew each time', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startService({ databaseUrl: proxy.url });
    const database = new URL(service.databaseUrl).pathname.slice(1);
    await sql`ALTER DATABASE ${sql.id(database)} SET default_transaction_read_only = on`.execute(service.db);
    await terminateConnections(proxy.target);
    await expect.poll(async () => (await add('standby')).json).toEqual(unavailable);
    const connections = () => new Set(proxy.sent.map(({ connection }) => connection)).size;
    const before = connections();
    for (let round = 0; round < 30; round++) await Promise.all([add('standby'), service.request('/v1/pets')]);
    expect(connections() - before).toBeLessThan(10);
    await service.stop();
    await proxy.goAway();
  });

  test('outcome_unknown: the connection fell silent while the write was under way', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startImpatient({ databaseUrl: proxy.url });
    const unlock = await lockTable(proxy.target, 'pets');
    const answer = add('silent');
    await sleep(100);
    proxy.fallSilent();
    const { json, headers } = await answer;
    expect(json).toEqual(outcomeUnknown);
    expect(headers.get('retry-after')).toMatch(/^\d+$/);
    await unlock();
    await service.stop();
    await proxy.goAway();
  });

  test('outcome_unknown: the connection broke while the write was under way', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startImpatient({ databaseUrl: proxy.url });
    const unlock = await lockTable(proxy.target, 'messages');
    const answer = service.request('/quickstart/messages', { body: { message: 'broken' } });
    await sleep(100);
    await proxy.goAway();
    expect((await answer).json).toEqual(outcomeUnknown);
    await unlock();
  });

  test('unavailable: the database broke the connection off before anything was sent', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startService({ databaseUrl: proxy.url });
    await proxy.goAway();
    const doorkeeper = net.createServer((socket) => socket.resetAndDestroy());
    doorkeeper.listen(Number(new URL(proxy.url).port), '127.0.0.1');
    expect((await add('never sent')).json).toEqual(unavailable);
    doorkeeper.close();
  });

  test('unavailable: with an Idempotency-Key, too, a cancelled statement stored nothing, the key included', async () => {
    service = await startImpatient();
    const unlock = await lockTable(service.databaseUrl, 'pets');
    const answer = await service.request('/v1/pets', {
      body: { name: 'keyed', categoryId: 1 },
      headers: { 'idempotency-key': 'cancelled' },
    });
    expect(answer.json).toEqual(unavailable);
    await unlock();
    expect(await service.db.selectFrom('idempotency_keys').selectAll().execute()).toEqual([]);
  });

  test('outcome_unknown: the same Idempotency-Key then gives what was stored, once', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startService({ databaseUrl: proxy.url });
    const send = () =>
      service.request('/v1/pets', {
        body: { name: 'keyed', categoryId: 1 },
        headers: { 'idempotency-key': 'broken' },
      });
    proxy.cutAtNext(/insert into idempotency_keys/i);
    expect((await send()).json).toEqual(outcomeUnknown);
    const [again, andAgain] = [await send(), await send()];
    expect([again.status, andAgain.text]).toEqual([201, again.text]);
    expect(await countPets('keyed')).toBe(1);
    await service.stop();
    await proxy.goAway();
  });

  test.each([
    ['40P01', 'a deadlock'],
    ['40001', 'a serialization failure'],
    ['53100', 'a full disk'],
    ['53200', 'no memory'],
    ['55P03', 'a lock that is not to be had'],
    ['57014', 'a cancelled statement'],
    ['58030', 'a failing disk'],
    ['25006', 'a database that only reads'],
  ])('unavailable: PostgreSQL says %s, %s; it works again as soon as that has passed', async (sqlState) => {
    service = await startService();
    await sql
      .raw(`
      CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '${sqlState}'; END $$;
      CREATE TRIGGER fail BEFORE INSERT ON pets EXECUTE FUNCTION fail();`)
      .execute(service.db);
    for (const answer of await Promise.all([add('a'), add('b'), add('c')])) {
      expect(answer.json).toEqual(unavailable);
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    await sql`DROP TRIGGER fail ON pets`.execute(service.db);
    expect((await add('after')).status).toBe(201);
    expect((await service.request('/v1/pets')).json).toHaveLength(1);
  });

  test('unavailable: the database has no connection left for the service', async () => {
    const databaseUrl = await createDatabase();
    const role = `crowded_${Math.random().toString(36).slice(2)}`;
    await inDatabase(databaseUrl, (client) =>
      client.query(`
        CREATE ROLE ${role} LOGIN PASSWORD 'sesame' CONNECTION LIMIT 0;
        GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role};
        GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${role}`),
    );
    const url = new URL(databaseUrl);
    url.username = role;
    url.password = 'sesame';
    service = await startService({ databaseUrl, servedAs: url.href });
    expect((await add('crowded')).json).toEqual(unavailable);
    expect((await service.request('/health/ready', { key: null })).json).toEqual(unavailable);
    await inDatabase(databaseUrl, (client) => client.query(`ALTER ROLE ${role} CONNECTION LIMIT 20`));
    expect((await add('there is room')).status).toBe(201);
    await sql`DROP OWNED BY ${sql.id(role)}`.execute(service.db);
    await service.stop();
    await inDatabase(databaseUrl, (client) => client.query(`DROP ROLE ${role}`));
  });
});

describe('reads are attempted again, once and on a new connection, where theirs broke at once', () => {
  test.each([
    ['the look-up of a key', /from api_keys/i, 1],
    ['a page', /from pets/i, 1],
  ])('%s', async (_what, text, more) => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startService({ databaseUrl: proxy.url });
    expect((await service.request('/v1/pets')).status).toBe(200);
    const count = () => proxy.sent.filter((statement) => text.test(statement.text)).length;
    const before = count();
    proxy.cutAtNext(text);
    expect((await service.request('/v1/pets')).status).toBe(200);
    expect(count() - before).toBe(1 + more);
    await service.stop();
    await proxy.goAway();
  });

  test('a write is not: it may have been stored', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startService({ databaseUrl: proxy.url });
    proxy.cutAtNext(/insert into pets/i);
    expect((await add('once')).json).toEqual(outcomeUnknown);
    await sleep(200);
    expect(proxy.sent.filter(({ text }) => /insert into pets/i.test(text))).toHaveLength(1);
    await service.stop();
    await proxy.goAway();
  });
});

describe('each request ends within its deadline', () => {
  const DEADLINE_MS = 2000;
  /** For the answer to travel, on a busy machine. */
  const SLACK_MS = 300;
  const timed = async (request: Promise<Answer>) => {
    const begun = performance.now();
    const { json } = await request;
    return { json, ms: performance.now() - begun };
  };
  const operations = () => [
    service.request('/v1/pets'),
    service.request('/v1/pets/1'),
    add('late'),
    service.request('/v1/pets', {
      body: { name: 'late', categoryId: 1 },
      headers: { 'idempotency-key': 'k' },
    }),
  ];

  test.each(['pets', 'api_keys'])('whenever it comes while %s is locked', async (table) => {
    service = await startService({ config: { requestDeadlineMs: DEADLINE_MS } });
    const unlock = await lockTable(service.databaseUrl, table);
    const answers = [];
    for (let wave = 0; wave < 8; wave++) {
      answers.push(...operations().map(timed));
      await sleep(200);
    }
    for (const { json, ms } of await Promise.all(answers)) {
      expect(json).toEqual(unavailable);
      expect(ms).toBeLessThan(DEADLINE_MS + SLACK_MS);
    }
    await unlock();
    expect((await add('on time')).status).toBe(201);
    expect(await countPets('late')).toBe(0);
  });

  test('also where no connection says anything more, and the first one after that is answered', async () => {
    const proxy = await DatabaseProxy.start(await createDatabase());
    service = await startService({ databaseUrl: proxy.url, config: { requestDeadlineMs: DEADLINE_MS } });
    await Promise.all(Array.from({ length: 20 }, () => Promise.all(operations()))); // opens several connections
    proxy.fallSilent();
    for (const { ms } of await Promise.all(operations().map(timed))) {
      expect(ms).toBeLessThan(DEADLINE_MS + SLACK_MS);
    }
    for (const { status } of await Promise.all(operations())) expect(status).not.toBe(503);
    await service.stop();
    await proxy.goAway();
  });

  test('the time in which a client sends its body does not count', async () => {
    service = await startService({ config: { requestDeadlineMs: 400 } });
    const body = '{"name":"slow","categoryId":1}';
    const connection = new RawConnection(service.port);
    connection.send(
      `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 9)}`,
    );
    await sleep(800);
    connection.send(body.slice(9));
    expect(await connection.answers(1)).toMatchObject([{ status: 201 }]);
    connection.destroy();
  });
});

describe('an act on keys and its audit row are stored together, or not at all', () => {
  test('without the audit row there is no account, no key, no rotation and no revocation', async () => {
    service = await startService();
    const { db } = service;
    const id = (await findActiveKey(db, hashKey(await newKey(db))))?.id ?? '';
    const state = async () => ({
      accounts: await db.selectFrom('accounts').selectAll().execute(),
      keys: await db.selectFrom('api_keys').selectAll().orderBy('id').execute(),
    });
    const before = await state();
    await sql`ALTER TABLE audit_events RENAME TO audit_events_away`.execute(db);
    const options = { environment: 'test', actor: 'test' } as const;
    const acts = [
      () => createKey(db, { ...options, account: 'new account', name: 'n', expiresIn: null }),
      () => createKey(db, { ...options, account: 'tester', name: 'n', expiresIn: null }),
      () => rotateKey(db, id, { ...options, overlap: 0 }),
      () => revokeKey(db, id, 'test'),
    ];
    for (const act of acts) await expect(act()).rejects.toThrow('audit_events');
    expect(await state()).toEqual(before);
  });
});
