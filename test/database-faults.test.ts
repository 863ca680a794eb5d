import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterEach, describe, expect, test } from 'vitest';
import { createKey, revokeKey, rotateKey } from '../src/keys/commands.ts';
import { hashKey } from '../src/keys/format.ts';
import { findActiveKey } from '../src/keys/repository.ts';
import { connect, createDatabase, lockTable } from './support/database.ts';
import { DatabaseProxy } from './support/proxy.ts';
import { newKey, type Service, type ServiceOptions, startService } from './support/service.ts';

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
