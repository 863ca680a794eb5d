import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { verifySchema } from '../../src/db/migrate.ts';
import { killGroup, run, start } from '../support/command.ts';
import { connect, statementsHeldUp } from '../support/database.ts';
import { inDatabase, urlOf } from '../support/postgres.ts';
import { ChaosPostgres } from './support/chaos-postgres.ts';

const MIGRATE = ['run', '--silent', 'migrate'];

let postgres: ChaosPostgres;
beforeAll(async () => {
  postgres = await ChaosPostgres.startEmpty();
});
afterAll(() => postgres?.destroy());

async function createDatabase(name: string): Promise<string> {
  await postgres.query(`CREATE DATABASE ${name}`);
  return urlOf(postgres.url, name);
}

const migrate = (DATABASE_URL: string) => run('npm', MIGRATE, { env: { DATABASE_URL } });

async function expectCurrent(databaseUrl: string): Promise<void> {
  const db = connect(databaseUrl);
  await expect(verifySchema(db)).resolves.toBeUndefined();
  await db.destroy();
}

test.each([1, 2])('two at once both succeed, and the schema is current (%i)', async (round) => {
  const url = await createDatabase(`at_once_${round}`);
  const outcomes = await Promise.all([migrate(url), migrate(url)]);
  expect(outcomes.map(({ exitCode, stderr }) => [exitCode, stderr])).toEqual([
    [0, ''],
    [0, ''],
  ]);
  await expectCurrent(url);
});

test('one that is killed half-way leaves nothing behind, and the next one succeeds', async () => {
  const url = await createDatabase('half_way');
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query('BEGIN; CREATE TABLE messages ()'); // after that of pets, another one waits for this to end
  const migration = start('npm', MIGRATE, { env: { DATABASE_URL: url } });
  await expect.poll(() => statementsHeldUp(url), { timeout: 10_000 }).toBe(1);
  await killGroup(migration);
  await blocker.query('ROLLBACK');
  await blocker.end();

  await expect.poll(() => postgres.connectionsOfService(), { timeout: 5000 }).toBe(0);
  const tables = await inDatabase(url, (client) =>
    client.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename !~ '^kysely_'"),
  );
  expect(tables.rows).toEqual([]);
  expect(await migrate(url)).toMatchObject({ exitCode: 0, stderr: '' });
  await expectCurrent(url);
});
