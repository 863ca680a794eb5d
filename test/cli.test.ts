import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isWellFormedKey } from '../src/keys/format.ts';
import { run } from './support/command.ts';
import { connect, createDatabase } from './support/database.ts';
import { type Service, startService } from './support/service.ts';

const UUID = /[0-9a-f]{8}-[0-9a-f-]{27}/;

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

/** Runs a command as npm does, without npm's own lines. */
const npm = (script: string, args: string[] = [], env: Record<string, string> = {}) =>
  run('npm', ['run', '--silent', script, '--', ...args], {
    env: { DATABASE_URL: service.databaseUrl, KEY_ENVIRONMENT: 'test', ...env },
  });

interface ListedKey {
  id: string;
  account: string;
  name: string;
  hint: string;
  createdAt: string;
  expiresAt: string | null;
  revokedAt: string | null;
  lastUsedAt: string | null;
}

const listKeys = async (): Promise<ListedKey[]> => JSON.parse((await npm('keys', ['list', '--json'])).stdout);
const keyOf = async (secret: string) => (await listKeys()).find(({ hint }) => secret.startsWith(hint));
const statusWith = async (key: string) => (await service.request('/v1/pets', { key })).status;
const auditOf = (account: string) =>
  service.db
    .selectFrom('audit_events')
    .innerJoin('accounts', 'accounts.id', 'audit_events.account_id')
    .select(['action', 'actor', 'key_id', 'details'])
    .where('accounts.name', '=', account)
    .orderBy('audit_events.id')
    .execute();

async function create(account: string, ...more: string[]) {
  const { stdout, stderr, exitCode } = await npm('keys', ['create', '--account', account, ...more]);
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^ast_test_\w{38}\n$/)]);
  return { secret: stdout.trim(), id: UUID.exec(stderr)?.[0] ?? '', stderr };
}

describe('keys create', () => {
  test('prints only the key on stdout, and it works', async () => {
    const { secret } = await create('alice');
    expect(isWellFormedKey(secret)).toBe(true);
    expect(await statusWith(secret)).toBe(200);
  });

  test('makes the account where there is none of that name, and no second one', async () => {
    await create('twice');
    await create('twice', '--name', 'second');
    expect((await listKeys()).filter(({ account }) => account === 'twice').map(({ name }) => name)).toEqual([
      'default',
      'second',
    ]);
    expect((await auditOf('twice')).map(({ action, actor }) => [action, actor])).toEqual([
      ['account.created', 'command line'],
      ['key.created', 'command line'],
      ['key.created', 'command line'],
    ]);
  });

  test('gives the key an expiry', async () => {
    const { secret, stderr } = await create('expiring', '--expires-in', '30d');
    const { createdAt, expiresAt } = (await keyOf(secret)) ?? {};
    expect(Date.parse(expiresAt ?? '') - Date.parse(createdAt ?? '')).toBeCloseTo(30 * 86_400_000, -4);
    expect(stderr).toContain(expiresAt);
  });

  test('KEY_ENVIRONMENT decides what the key begins with', async () => {
    const { stdout } = await npm('keys', ['create', '--account', 'live'], { KEY_ENVIRONMENT: 'live' });
    expect(stdout).toMatch(/^ast_live_/);
    expect(await statusWith(stdout.trim())).toBe(200);
  });

  test('leaves of the key only its SHA-256 and a hint in the database', async () => {
    const { secret } = await create('secretive');
    const { rows } = await sql<{ text: string }>`
      SELECT (SELECT string_agg(k::text, '') FROM api_keys k) || (SELECT string_agg(e::text, '') FROM audit_events e)
        AS text`.execute(service.db);
    expect(rows[0]?.text).toContain(secret.slice(0, 13));
    expect(rows[0]?.text).not.toContain(secret.slice(0, 14));
    expect(rows[0]?.text).not.toContain(secret.slice(14));
  });
});

describe('keys list', () => {
  test('--json gives an array with id, account, name, hint and times', async () => {
    const { secret, id } = await create('listed');
    expect(await keyOf(secret)).toEqual({
      ...{ id, account: 'listed', name: 'default', hint: secret.slice(0, 13) },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      ...{ expiresAt: null, revokedAt: null, lastUsedAt: null },
    });
  });

  test('without --json it is a table to read', async () => {
    const { stdout, exitCode } = await npm('keys', ['list']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/id.*account.*name.*hint/);
    expect(stdout).toContain('alice');
  });
});

describe('keys revoke', () => {
  test('refuses the key from the next request on', async () => {
    const { secret, id } = await create('revoked');
    expect(await statusWith(secret)).toBe(200);
    expect(await npm('keys', ['revoke', id])).toMatchObject({
      exitCode: 0,
      stdout: `Key ${id} is revoked.\n`,
    });
    expect(await statusWith(secret)).toBe(401);
    expect((await keyOf(secret))?.revokedAt).toMatch(/Z$/);
    expect((await auditOf('revoked')).at(-1)).toMatchObject({ action: 'key.revoked', key_id: id });
  });

  test('says so where it was revoked before, and changes nothing', async () => {
    const { secret, id } = await create('revoked twice');
    await npm('keys', ['revoke', id]);
    const before = [await keyOf(secret), await auditOf('revoked twice')];
    expect(await npm('keys', ['revoke', id])).toMatchObject({
      exitCode: 0,
      stdout: `Key ${id} was revoked before.\n`,
    });
    expect([await keyOf(secret), await auditOf('revoked twice')]).toEqual(before);
  });
});

describe('keys rotate', () => {
  test('prints only the new key; the old one ends after the overlap', async () => {
    const old = await create('rotating', '--name', 'app');
    const { stdout, exitCode } = await npm('keys', ['rotate', old.id, '--overlap', '1h']);
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^ast_test_\w{38}\n$/)]);
    expect([await statusWith(old.secret), await statusWith(stdout.trim())]).toEqual([200, 200]);
    const replacement = await keyOf(stdout.trim());
    expect(replacement).toMatchObject({ account: 'rotating', name: 'app', expiresAt: null });
    const remaining = Date.parse((await keyOf(old.secret))?.expiresAt ?? '') - Date.now();
    expect(remaining).toBeGreaterThan(3_500_000);
    expect(remaining).toBeLessThan(3_610_000);
    expect((await auditOf('rotating')).slice(-2)).toMatchObject([
      { action: 'key.created', key_id: replacement?.id },
      { action: 'key.rotated', key_id: old.id, details: { replacement: replacement?.id } },
    ]);
  });

  test('with an overlap of 0s the old key ends at once', async () => {
    const old = await create('rotating at once');
    await npm('keys', ['rotate', old.id, '--overlap', '0s']);
    expect(await statusWith(old.secret)).toBe(401);
  });

  test('never lengthens the life of a key', async () => {
    const old = await create('short-lived', '--expires-in', '1h');
    const { stdout } = await npm('keys', ['rotate', old.id, '--overlap', '30d']);
    const [oldKey, newKey] = [await keyOf(old.secret), await keyOf(stdout.trim())];
    expect(newKey?.expiresAt).toBe(oldKey?.expiresAt);
    expect(Date.parse(oldKey?.expiresAt ?? '') - Date.now()).toBeLessThan(3_610_000);
  });

  test('refuses a key that is revoked', async () => {
    const { id } = await create('rotated too late');
    await npm('keys', ['revoke', id]);
    const { exitCode, stdout, stderr } = await npm('keys', ['rotate', id, '--overlap', '1h']);
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toBe(`animal-store: key ${id} is revoked: create a new one instead\n`);
  });
});

describe('keys rotate of an expired key', () => {
  test('is refused', async () => {
    const { id } = await create('expired', '--expires-in', '1s');
    await sleep(1100);
    const { exitCode, stderr } = await npm('keys', ['rotate', id, '--overlap', '1h']);
    expect([exitCode, stderr]).toEqual([
      1,
      `animal-store: key ${id} has expired: create a new one instead\n`,
    ]);
  });
});

describe('accounts create', () => {
  test('creates an account, once', async () => {
    const first = await npm('accounts', ['create', 'the zoo']);
    expect(first).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(UUID) });
    const second = await npm('accounts', ['create', 'the zoo']);
    expect(second).toMatchObject({
      exitCode: 1,
      stdout: '',
      stderr: 'animal-store: there is an account named "the zoo" already\n',
    });
    expect((await auditOf('the zoo')).map(({ action }) => action)).toEqual(['account.created']);
  });
});

describe('usage and errors', () => {
  const unknownId = '00000000-0000-0000-0000-000000000000';

  test('--help prints the usage', async () => {
    expect(await npm('keys', ['--help'])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^Usage:/),
    });
  });

  test.each([
    ['keys', [], /^Usage:[\s\S]*there is no command "keys"/],
    ['keys', ['delete'], /^Usage:[\s\S]*there is no command "keys delete"/],
    ['accounts', ['list'], /^Usage:[\s\S]*there is no command "accounts list"/],
    ['keys', ['create'], /--account is required/],
    ['keys', ['create', '--account', ''], /--account is required/],
    ['keys', ['create', '--account', ' padded '], /--account must be 1 to 100 characters/],
    ['keys', ['create', '--account', 'a\nb'], /--account must be/],
    ['keys', ['create', '--account', 'a'.repeat(101)], /--account must be/],
    ['keys', ['create', '--account', 'a', '--expires-in', '30'], /--expires-in must be a duration such as/],
    ['keys', ['create', '--account', 'a', '--expires-in', '0d'], /--expires-in must be longer/],
    ['keys', ['create', '--account', 'a', '--expires-in', '40000d'], /--expires-in must be/],
    ['keys', ['create', '--account', 'a', '--expire', '1d'], /--expire/],
    ['keys', ['create', 'a'], /unexpected argument "a"/],
    ['keys', ['revoke'], /ID is required/],
    ['keys', ['revoke', '17'], /"17" is not the ID of a key/],
    ['keys', ['revoke', unknownId], /there is no key 00000000/],
    ['keys', ['rotate', unknownId], /--overlap is required/],
    ['keys', ['rotate', unknownId, '--overlap', '1h'], /there is no key 00000000/],
    ['accounts', ['create'], /NAME is required/],
    ['accounts', ['create', 'two', 'names'], /unexpected argument "names"/],
  ])('%s %j fails with one clear line', async (script, args, message) => {
    const { exitCode, stdout, stderr } = await npm(script, args);
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/(^|\n)animal-store: .+\n$/);
  });

  test('a schema that is not migrated is named, and migrate mends it', async () => {
    const env = { DATABASE_URL: await createDatabase('empty') };
    const refused = await npm('keys', ['list'], env);
    expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('run "npm run migrate"') });
    expect(await npm('migrate', [], env)).toMatchObject({
      exitCode: 0,
      stdout: 'Migrated: 0001_initial, 0002_idempotency_keys.\n',
    });
    expect(await npm('migrate', [], env)).toMatchObject({ exitCode: 0, stdout: 'The schema is current.\n' });
    expect((await npm('keys', ['list', '--json'], env)).stdout).toBe('[]\n');
  });

  test('migrate waits for another that is at it, longer than a statement may take', async () => {
    const env = { DATABASE_URL: await createDatabase('empty'), REQUEST_DEADLINE_MS: '1000' };
    const other = connect(env.DATABASE_URL);
    const migrating = other.transaction().execute(async (transaction) => {
      await sql`SELECT pg_advisory_xact_lock(3853314791062309107)`.execute(transaction); // Kysely's migration lock
      const outcome = npm('migrate', [], env);
      await sleep(1500);
      return { outcome };
    });
    const { outcome } = await migrating;
    expect(await outcome).toMatchObject({
      exitCode: 0,
      stdout: 'Migrated: 0001_initial, 0002_idempotency_keys.\n',
    });
    await other.destroy();
  });

  test.each([
    ['missing', '', /^animal-store: bad configuration: DATABASE_URL is required\n$/],
    ['bad', 'nonsense', /^animal-store: bad configuration: DATABASE_URL must be .+\n$/],
    [
      'unreachable',
      'postgres://u:sesame@127.0.0.1:1/x',
      /^animal-store: the database .* cannot be reached: .+\n$/,
    ],
  ])('a %s DATABASE_URL is one clear line', async (_what, url, message) => {
    const { exitCode, stderr } = await npm('keys', ['list'], { DATABASE_URL: url });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('sesame');
  });
});
