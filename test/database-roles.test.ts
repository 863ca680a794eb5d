import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { migrate } from '../src/db/migrate.ts';
import { hashKey } from '../src/keys/format.ts';
import { run } from './support/command.ts';
import { connect, createDatabase } from './support/database.ts';
import { inDatabase } from './support/postgres.ts';
import { type Service, startService } from './support/service.ts';

/** Roles belong to the whole server: each run has its own. */
const suffix = randomBytes(4).toString('hex');
const roles = {
  owner: `animal_store_owner_${suffix}`,
  service: `animal_store_service_${suffix}`,
  operator: `animal_store_operator_${suffix}`,
};
type Role = keyof typeof roles;

let databaseUrl: string;
let service: Service;

const urlAs = (role: Role): string => {
  const url = new URL(databaseUrl);
  url.username = roles[role];
  url.password = 'sesame';
  return url.href;
};
const statementAs = (role: Role, statement: string) =>
  inDatabase(urlAs(role), (client) => client.query(statement));

/** Runs `deploy/grants.sql`, with the roles of this run, as the owner. */
async function grant(): Promise<void> {
  const text = await readFile(new URL('../deploy/grants.sql', import.meta.url), 'utf8');
  await statementAs('owner', text.replaceAll(/animal_store_(?:service|operator)/g, `$&_${suffix}`));
}

beforeAll(async () => {
  databaseUrl = await createDatabase('empty');
  await inDatabase(databaseUrl, async (client) => {
    for (const role of Object.values(roles))
      await client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'sesame'`);
    await client.query(`GRANT ${roles.owner} TO CURRENT_USER`);
    await client.query(`ALTER DATABASE ${new URL(databaseUrl).pathname.slice(1)} OWNER TO ${roles.owner}`);
  });
  const owner = connect(urlAs('owner'));
  await migrate(owner);
  await owner.destroy();
  await grant();
  service = await startService({ databaseUrl: urlAs('owner'), servedAs: urlAs('service') });
});

afterAll(async () => {
  await service.stop();
  await inDatabase(inject('serverUrl'), async (client) => {
    await client.query(`DROP DATABASE ${new URL(databaseUrl).pathname.slice(1)} WITH (FORCE)`); // and all grants in it
    for (const role of Object.values(roles)) await client.query(`DROP ROLE ${role}`);
  });
});

/** The status of each of many requests that are sent at the same time, so that they share statements. */
const statusesOf = async (requests: Promise<{ status: number }>[]) => [
  ...new Set((await Promise.all(requests)).map(({ status }) => status)),
];
const numbers = Array.from({ length: 50 }, (_, number) => number);

describe('the service, served with the grants of deploy/grants.sql as a role that owns nothing,', () => {
  const addPet = (name: string, headers: Record<string, string> = {}) =>
    service.request('/v1/pets', { body: { name, categoryId: 1, status: 'sold' }, headers });
  const addMessage = (message: string, headers: Record<string, string> = {}) =>
    service.request('/quickstart/messages', { body: { message }, headers });

  test('is ready', async () => {
    expect((await service.request('/health/ready', { key: null })).status).toBe(200);
  });

  test('adds animals, one alone and many at once', async () => {
    expect((await addPet('alone')).status).toBe(201);
    expect(await statusesOf(numbers.map((number) => addPet(`${number}`)))).toEqual([201]);
  });

  test('adds an animal once under an Idempotency-Key, alone and among many', async () => {
    const first = await addPet('once', { 'idempotency-key': 'alone' });
    expect(first.status).toBe(201);
    expect((await addPet('once', { 'idempotency-key': 'alone' })).text).toBe(first.text);
    expect((await addPet('other', { 'idempotency-key': 'alone' })).status).toBe(422);
    const many = () =>
      statusesOf(numbers.map((number) => addPet(`${number}`, { 'idempotency-key': `pet-${number % 20}` })));
    expect((await many()).toSorted()).toEqual([201, 422]);
    expect((await many()).toSorted()).toEqual([201, 422]);
  });

  test('queues messages, alone, many at once and once under an Idempotency-Key', async () => {
    expect((await addMessage('alone')).status).toBe(202);
    expect(await statusesOf(numbers.map((number) => addMessage(`${number}`)))).toEqual([202]);
    const first = await addMessage('once', { 'idempotency-key': 'alone' });
    expect((await addMessage('once', { 'idempotency-key': 'alone' })).text).toBe(first.text);
    const many = () =>
      statusesOf(numbers.map((number) => addMessage('m', { 'idempotency-key': `${number}` })));
    expect([await many(), await many()]).toEqual([[202], [202]]);
  });

  test('gets animals, alone and many at once', async () => {
    expect((await service.request('/v1/pets/1')).status).toBe(200);
    const requests = numbers.map((number) => service.request(`/v1/pets/${number + 1}`));
    expect(await statusesOf(requests)).toEqual([200]);
  });

  test('lists animals by filter and cursor, alone and many pages at once', async () => {
    const first = await service.request('/v1/pets?status=sold&limit=1');
    const next = /<([^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1];
    expect(await service.request(`/v1/pets${next}`)).toMatchObject({
      status: 200,
      json: [{ status: 'sold' }],
    });
    const pages = ['', '?limit=7', '?status=sold', '?status=pending&limit=3', `${next}`];
    const requests = numbers.map((number) => service.request(`/v1/pets${pages[number % pages.length]}`));
    expect(await statusesOf(requests)).toEqual([200]);
  });

  test('refuses an unknown key', async () => {
    expect((await service.request('/v1/pets', { key: service.key.replace('test', 'live') })).status).toBe(
      401,
    );
  });

  test('notes when a key was last used', async () => {
    const lastUsed = () =>
      service.db
        .selectFrom('api_keys')
        .select('last_used_at as at')
        .where('hash', '=', hashKey(service.key))
        .executeTakeFirstOrThrow();
    await expect.poll(lastUsed, { timeout: 5000 }).toEqual({ at: expect.any(Date) });
  });

  test('has no reason to complain in its log', () => {
    expect(service.log.filter((line) => JSON.parse(line).level >= 40)).toEqual([]);
  });
});

describe('the role of the service cannot', () => {
  test.each([
    ['change an animal', "UPDATE pets SET name = 'x'"],
    ['delete an animal', 'DELETE FROM pets'],
    ['empty a table', 'TRUNCATE pets'],
    ['lock animals away from others', 'BEGIN; LOCK TABLE pets IN ACCESS EXCLUSIVE MODE'],
    ['turn back the ids of animals', "SELECT setval('pets_id_seq', 1)"],
    ['change a message', "UPDATE messages SET message = 'x'"],
    ['delete a message', 'DELETE FROM messages'],
    ['change an Idempotency-Key', "UPDATE idempotency_keys SET resource_id = '1'"],
    ['delete an Idempotency-Key', 'DELETE FROM idempotency_keys'],
    ['read accounts', 'SELECT name FROM accounts'],
    ['add an account', "INSERT INTO accounts (name) VALUES ('x')"],
    ['read the audit', 'SELECT actor FROM audit_events'],
    [
      'add to the audit',
      "INSERT INTO audit_events (actor, action, account_id) VALUES ('a', 'b', gen_random_uuid())",
    ],
    ['delete from the audit', 'DELETE FROM audit_events'],
    ['read the names of keys', 'SELECT name FROM api_keys'],
    [
      'add a key',
      String.raw`INSERT INTO api_keys (account_id, name, hash, hint) VALUES (gen_random_uuid(), 'x', '\x', 'x')`,
    ],
    ['revoke a key', 'UPDATE api_keys SET revoked_at = now()'],
    ['bring a key back', 'UPDATE api_keys SET revoked_at = NULL, expires_at = NULL'],
    ['give a key to another account', 'UPDATE api_keys SET account_id = gen_random_uuid()'],
    ['delete a key', 'DELETE FROM api_keys'],
    ['pretend a migration', "INSERT INTO kysely_migration VALUES ('9999_later', 'now')"],
    ['read what it has no need of', 'SELECT timestamp FROM kysely_migration'],
    ['make a table', 'CREATE TABLE x (id int)'],
    ['make a temporary table', 'CREATE TEMPORARY TABLE x (id int)'],
    ['make a schema', 'CREATE SCHEMA x'],
    ['change a table', 'ALTER TABLE pets ADD COLUMN x int'],
    ['become the owner', `SET ROLE ${roles.owner}`],
  ])('%s', async (_what, statement) => {
    await expect(statementAs('service', statement)).rejects.toThrow(/permission denied|must be owner/);
  });

  test('update any column of any table but api_keys.last_used_at, nor delete anywhere', async () => {
    expect(await columnsWith('service', 'UPDATE')).toEqual(['api_keys.last_used_at']);
    expect(await tablesWith('service', 'DELETE, TRUNCATE, TRIGGER')).toEqual([]);
  });
});

describe('the role of the command line', () => {
  const npm = async (...args: string[]) => {
    const env = { DATABASE_URL: urlAs('operator'), KEY_ENVIRONMENT: 'test' };
    const { exitCode, stdout, stderr } = await run('npm', ['run', '--silent', ...args], { env });
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
    return stdout.trim();
  };
  const listKeys = async (): Promise<{ id: string; hint: string }[]> =>
    JSON.parse(await npm('keys', '--', 'list', '--json'));
  const statusWith = async (key: string) => (await service.request('/v1/pets', { key })).status;

  test('creates accounts, and creates, lists, rotates and revokes keys', async () => {
    expect(await npm('accounts', '--', 'create', 'the zoo')).toMatch(/^[0-9a-f-]{36}$/);
    const first = await npm('keys', '--', 'create', '--account', 'the zoo', '--expires-in', '30d');
    expect(await statusWith(first)).toBe(200);
    const { id = '' } = (await listKeys()).find(({ hint }) => first.startsWith(hint)) ?? {};
    const second = await npm('keys', '--', 'rotate', id, '--overlap', '1h');
    expect([await statusWith(first), await statusWith(second)]).toEqual([200, 200]);
    expect(await npm('keys', '--', 'revoke', id)).toBe(`Key ${id} is revoked.`);
    expect([await statusWith(first), await statusWith(second)]).toEqual([401, 200]);
    const { rows } = await statementAs('owner', 'SELECT action FROM audit_events ORDER BY id DESC LIMIT 5');
    expect(rows.map(({ action }) => action)).toEqual([
      'key.revoked',
      'key.rotated',
      'key.created',
      'key.created',
      'account.created',
    ]);
  });

  test.each([
    ['read an animal', 'SELECT name FROM pets'],
    ['add an animal', "INSERT INTO pets (name, category_id) VALUES ('x', 1)"],
    ['read a message', 'SELECT message FROM messages'],
    ['read an Idempotency-Key', 'SELECT key FROM idempotency_keys'],
    ['read the hash of a key', 'SELECT hash FROM api_keys'],
    ['exchange the hash of a key', String.raw`UPDATE api_keys SET hash = '\x'`],
    ['delete a key', 'DELETE FROM api_keys'],
    ['rename an account', "UPDATE accounts SET name = 'x'"],
    ['delete an account', 'DELETE FROM accounts'],
    ['read the audit', 'SELECT actor FROM audit_events'],
    ['change the audit', "UPDATE audit_events SET actor = 'x'"],
    ['delete from the audit', 'DELETE FROM audit_events'],
    [
      'date the audit back',
      "INSERT INTO audit_events (occurred_at, actor, action, account_id) VALUES ('2000-01-01', 'a', 'b', gen_random_uuid())",
    ],
    ['make a table', 'CREATE TABLE x (id int)'],
  ])('cannot %s', async (_what, statement) => {
    await expect(statementAs('operator', statement)).rejects.toThrow('permission denied');
  });

  test('cannot update any column of any table but the ends of keys, nor delete anywhere', async () => {
    expect(await columnsWith('operator', 'UPDATE')).toEqual(['api_keys.expires_at', 'api_keys.revoked_at']);
    expect(await tablesWith('operator', 'DELETE, TRUNCATE, TRIGGER')).toEqual([]);
  });
});

describe('deploy/grants.sql, run again,', () => {
  test('takes back what it does not name, while the service serves', async () => {
    await statementAs('owner', `GRANT ALL ON pets, accounts TO ${roles.service}`);
    const [statuses] = await Promise.all([
      statusesOf(numbers.map(() => service.request('/v1/pets'))),
      grant(),
    ]);
    expect(statuses).toEqual([200]);
    await expect(statementAs('service', 'DELETE FROM pets')).rejects.toThrow('permission denied');
    await expect(statementAs('service', 'SELECT name FROM accounts')).rejects.toThrow('permission denied');
    expect((await service.request('/v1/pets')).status).toBe(200);
  });
});

/** The columns, of all tables that there are, on which a role has a right. */
async function columnsWith(role: Role, right: string): Promise<string[]> {
  const { rows } = await statementAs(
    'owner',
    `SELECT relname || '.' || attname AS name FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
     WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0
       AND has_column_privilege('${roles[role]}', pg_class.oid, attnum, '${right}')
     ORDER BY name`,
  );
  return rows.map(({ name }) => name);
}

/** The tables, of all that there are, on which a role has one of some rights. */
async function tablesWith(role: Role, rights: string): Promise<string[]> {
  const { rows } = await statementAs(
    'owner',
    `SELECT relname AS name FROM pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
       AND has_table_privilege('${roles[role]}', oid, '${rights}')`,
  );
  return rows.map(({ name }) => name);
}
