import { sql } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import type { Database } from '../src/db/database.ts';
import { migrate, SchemaMismatch, verifySchema } from '../src/db/migrate.ts';
import { connect, createDatabase } from './support/database.ts';

const MIGRATIONS = ['0001_initial', '0002_idempotency_keys'];

const opened: Database[] = [];
afterEach(() => Promise.all(opened.splice(0).map((db) => db.destroy())));

function open(url: string): Database {
  const db = connect(url);
  opened.push(db);
  return db;
}

test('migrating an empty database makes the schema current, and again does nothing', async () => {
  const db = open(await createDatabase('empty'));
  await expect(verifySchema(db)).rejects.toThrow(
    /not current \(0001_initial, .*pending\): run "npm run migrate"/,
  );
  expect(await migrate(db)).toEqual(MIGRATIONS);
  await verifySchema(db);
  expect(await migrate(db)).toEqual([]);
});

test('several may migrate at once: one does, the others wait', async () => {
  const url = await createDatabase('empty');
  const done = await Promise.all(Array.from({ length: 4 }, () => migrate(open(url))));
  expect(done.flat()).toEqual(MIGRATIONS);
});

test('a migration that fails leaves nothing behind', async () => {
  const db = open(await createDatabase('empty'));
  await sql`CREATE TABLE audit_events (id int)`.execute(db);
  await expect(migrate(db)).rejects.toThrow('audit_events');
  await expect(sql`SELECT 1 FROM pets`.execute(db)).rejects.toThrow('"pets" does not exist');
});

test('a schema newer than the code is neither migrated nor served', async () => {
  const db = open(await createDatabase());
  await sql`INSERT INTO kysely_migration VALUES ('9999_later', 'now')`.execute(db);
  await expect(migrate(db)).rejects.toThrow(SchemaMismatch);
  await expect(verifySchema(db)).rejects.toThrow(/newer than this version .*9999_later/);
});

test('int8 comes as bigint from this pool alone', async () => {
  const db = open(await createDatabase());
  const { rows } =
    await sql`SELECT 9007199254740993::int8 AS big, 1::int4 AS small, count(*) FROM pets`.execute(db);
  expect(rows).toEqual([{ big: 9007199254740993n, small: 1, count: 0n }]);
});

test('audit rows cannot be changed or deleted by the role that serves', async () => {
  const url = await createDatabase();
  const owner = open(url);
  const role = `owner_${Math.random().toString(36).slice(2)}`;
  await sql`CREATE ROLE ${sql.id(role)}`.execute(owner);
  await sql`GRANT ALL ON SCHEMA public TO ${sql.id(role)}`.execute(owner);
  await sql`DROP TABLE audit_events, api_keys, accounts, idempotency_keys, messages, pets, kysely_migration, kysely_migration_lock`.execute(
    owner,
  );
  await owner.connection().execute(async (connection) => {
    await sql`SET ROLE ${sql.id(role)}`.execute(connection);
    await migrate(connection);
    await sql`INSERT INTO audit_events (actor, action, account_id) VALUES ('a', 'b', gen_random_uuid())`.execute(
      connection,
    );
    for (const act of [
      'UPDATE audit_events SET actor = $$x$$',
      'DELETE FROM audit_events',
      'TRUNCATE audit_events',
    ]) {
      await expect(sql.raw(act).execute(connection)).rejects.toThrow('permission denied');
    }
    await sql`RESET ROLE`.execute(connection);
  });
  await sql`DROP OWNED BY ${sql.id(role)}`.execute(owner);
  await sql`DROP ROLE ${sql.id(role)}`.execute(owner);
});
