import { CompiledQuery, sql } from 'kysely';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Database } from '../src/db/database.ts';
import { connect, createDatabase } from './support/database.ts';
import { DatabaseProxy } from './support/proxy.ts';
import { type ServiceOptions, startService } from './support/service.ts';

const MOST_NAMES = 200;

const started: { end(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of started.splice(0)) await each.end();
});

/** Has a service do each of its operations, alone and many at a time, and gives what it sent to the database. */
async function useEverything(config: NonNullable<ServiceOptions['config']> = {}) {
  const proxy = await DatabaseProxy.start(await createDatabase());
  const service = await startService({ databaseUrl: proxy.url, config: { databasePoolSize: 2, ...config } });
  started.push({
    end: async () => {
      await service.stop();
      await proxy.goAway();
    },
  });
  const begin = proxy.sent.length;
  const statuses = new Set<number>();
  const use = async () => {
    const answers = await Promise.all([
      service.request('/v1/pets', { body: { name: 'a', categoryId: 1, status: 'sold' } }),
      service.request('/v1/pets?limit=1'),
      service.request('/v1/pets?status=sold'),
      service.request('/v1/pets/1'),
      service.request('/quickstart/messages', { body: { message: 'm' } }),
    ]);
    for (const { status } of answers) statuses.add(status);
  };
  for (let round = 0; round < 5; round++) await use();
  for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 10 }, use));
  expect([...statuses].filter((status) => ![200, 201, 202, 404].includes(status))).toEqual([]);
  return proxy.sent.slice(begin).filter(({ text }) => /\$1/.test(text));
}

/** The statements that PostgreSQL has prepared on a connection, with the text of each. */
async function preparedOn(connection: Database): Promise<Map<string, string>> {
  const { rows } = await connection.executeQuery<{ name: string; statement: string }>(
    CompiledQuery.raw('SELECT name, statement FROM pg_prepared_statements'),
  );
  return new Map(rows.map(({ statement, name }) => [statement, name]));
}

function openPool(databaseUrl: string, open = connect): Database {
  const db = open(databaseUrl);
  started.push({ end: () => db.destroy() });
  return db;
}

describe('with DATABASE_PREPARED_STATEMENTS=on', () => {
  test('each statement of an operation is parsed once a connection, and sent by its name from then on', async () => {
    const sent = await useEverything();
    expect(sent.length).toBeGreaterThan(50);
    expect(sent.filter(({ name }) => !/^[0-9a-f]{32}$/.test(name))).toEqual([]);
    const parsed = sent.filter(({ isParsed }) => isParsed);
    const onEachConnection = new Set(parsed.map(({ name, connection }) => `${connection} ${name}`));
    expect(parsed).toHaveLength(onEachConnection.size);
  });

  test('a text has one name, and a name one text', async () => {
    const sent = await useEverything();
    const texts = new Set(sent.map(({ text }) => text));
    const pairs = new Set(sent.map(({ name, text }) => `${name} ${text}`));
    expect(new Set(sent.map(({ name }) => name)).size).toBe(texts.size);
    expect(pairs.size).toBe(texts.size);
  });

  test('the service has a few statements, however many requests share each', async () => {
    const sent = await useEverything();
    expect(new Set(sent.map(({ name }) => name)).size).toBeLessThanOrEqual(20);
  });

  test('a text has the same name on every connection, in every pool and in every process', async () => {
    const databaseUrl = await createDatabase();
    const names = async (db: Database) =>
      db.connection().execute(async (connection) => {
        await sql`SELECT ${1}::int + 1`.execute(connection);
        await sql`SELECT ${'x'}::text`.execute(connection);
        return preparedOn(connection);
      });
    const here = await names(openPool(databaseUrl));
    expect([...here.keys()]).toEqual(expect.arrayContaining(['SELECT $1::int + 1', 'SELECT $1::text']));
    expect(await names(openPool(databaseUrl))).toEqual(here);

    vi.resetModules(); // the modules of a process that begins
    const elsewhere = await import('./support/database.ts');
    const there = openPool(databaseUrl, elsewhere.connect);
    await sql`SELECT ${0}::bigint`.execute(there); // it meets other texts first
    const namesThere = await names(there);
    for (const [text, name] of here) expect(namesThere.get(text)).toBe(name);
  });

  test('a statement that failed, and one with other parameters, run again under the same name', async () => {
    const db = openPool(await createDatabase());
    const divide = (by: number) => sql<{ result: number }>`SELECT 12 / ${by}::int AS result`.execute(db);
    await expect(divide(0)).rejects.toThrow('division by zero');
    expect((await divide(4)).rows).toEqual([{ result: 3 }]);
    await expect(divide(0)).rejects.toThrow('division by zero');
    expect((await divide(3)).rows).toEqual([{ result: 4 }]);
  });

  test.each([
    ['a connection that lost what was prepared on it', 'DEALLOCATE ALL'],
    ['a plan that a migration has outdated', 'ALTER TABLE api_keys ALTER COLUMN hint TYPE varchar(100)'],
  ])('%s is replaced, and costs no request an error', async (_what, change) => {
    const service = await startService({ config: { databasePoolSize: 1 } });
    started.push({ end: () => service.stop() });
    expect((await service.request('/v1/pets')).status).toBe(200);
    await service.db.executeQuery(CompiledQuery.raw(change));
    const { status, json } = await service.request('/v1/pets', { body: { name: 'a', categoryId: 1 } });
    expect(status).toBe(201);
    expect((await service.request('/v1/pets')).json).toEqual([json]); // stored once
  });

  test('a script of several statements runs, without a name', async () => {
    const db = openPool(await createDatabase());
    await db.connection().execute(async (connection) => {
      await connection.executeQuery(CompiledQuery.raw('CREATE TABLE a (); CREATE TABLE b ()'));
      expect(await preparedOn(connection)).toEqual(new Map());
    });
  });

  test('of 300 different texts at most 200 are prepared, and all run', async () => {
    vi.resetModules();
    const { connect: connectAnew } = await import('./support/database.ts');
    const db = openPool(await createDatabase(), connectAnew);
    await db.connection().execute(async (connection) => {
      for (let number = 0; number < 300; number++) {
        const { rows } = await sql<{ sum: number }>`SELECT ${1}::int + ${sql.lit(number)} AS sum`.execute(
          connection,
        );
        expect(rows).toEqual([{ sum: number + 1 }]);
      }
      const prepared = await preparedOn(connection);
      expect(prepared.size).toBeGreaterThan(100);
      expect(prepared.size).toBeLessThanOrEqual(MOST_NAMES);
    });
  });
});

describe('with DATABASE_PREPARED_STATEMENTS=off', () => {
  test('no statement has a name', async () => {
    const sent = await useEverything({ databasePreparedStatements: false });
    expect(sent.length).toBeGreaterThan(50);
    expect(sent.filter(({ name }) => name !== '')).toEqual([]);
  });
});
