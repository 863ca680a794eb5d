import { sql } from 'kysely';
import { attemptRead } from '../db/attempts.ts';
import { Batcher } from '../db/batch.ts';
import type { Database } from '../db/database.ts';

/** A key that a request may be answered on. */
export interface ActiveKey {
  readonly id: string;
  readonly accountId: string;
  readonly hint: string;
}

/** A key as lists show it. */
export interface KeyRecord {
  id: string;
  account: string;
  name: string;
  hint: string;
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  lastUsedAt: Date | null;
}

const SECONDS_BETWEEN_USES = 60;

/**
 * Finds the key of a SHA-256, if it is good at the moment of the call.
 *
 * @param startBy when the statement must have begun, on the clock of `performance.now()`
 */
export type FindActiveKey = (hash: Buffer, startBy: number) => Promise<ActiveKey | undefined>;

/** Look-ups that come in at the same time share a statement. It begins after they came in, so nothing is ever stale. */
export function createKeyLookup(db: Database): FindActiveKey {
  const lookups = new Batcher<Buffer, ActiveKey | undefined>({
    many: (hashes) => attemptRead(() => findManyActiveKeys(db, hashes)),
  });
  return (hash, startBy) => lookups.call(hash, startBy);
}

/** Finds the key of a SHA-256, if it is neither revoked nor expired by the clock of the database. */
export async function findActiveKey(db: Database, hash: Buffer): Promise<ActiveKey | undefined> {
  const [key] = await findManyActiveKeys(db, [hash]);
  return key;
}

async function findManyActiveKeys(
  db: Database,
  hashes: readonly Buffer[],
): Promise<(ActiveKey | undefined)[]> {
  const texts = hashes.map((hash) => hash.toString('latin1'));
  const distinct = [...new Set(texts)].map((text) => Buffer.from(text, 'latin1'));
  const { rows } = await sql<ActiveKey & { hash: Buffer }>`
    SELECT id, account_id AS "accountId", hint, hash FROM api_keys
    WHERE hash = any(${distinct}::bytea[])
      AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`.execute(db);
  const keys = new Map(rows.map(({ hash, ...key }) => [hash.toString('latin1'), key]));
  return texts.map((text) => keys.get(text));
}

/** All keys, the newest last. */
export function listKeys(db: Database): Promise<KeyRecord[]> {
  return db
    .selectFrom('api_keys')
    .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
    .select([
      'api_keys.id',
      'accounts.name as account',
      'api_keys.name',
      'hint',
      'api_keys.created_at as createdAt',
      'expires_at as expiresAt',
      'revoked_at as revokedAt',
      'last_used_at as lastUsedAt',
    ])
    .orderBy('api_keys.created_at')
    .orderBy('api_keys.id')
    .execute();
}

/** Finds a key by its id and locks it until the transaction ends. */
export function lockKey(db: Database, id: string) {
  return db
    .selectFrom('api_keys')
    .select(['id', 'account_id as accountId', 'name', 'expires_at as expiresAt', 'revoked_at as revokedAt'])
    .select(sql<boolean>`coalesce(expires_at <= now(), false)`.as('hasExpired'))
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
}

export interface NewKey {
  accountId: string;
  name: string;
  hash: Buffer;
  hint: string;
  expiresAt: Date | null;
}

export function insertKey(db: Database, key: NewKey): Promise<{ id: string }> {
  return db
    .insertInto('api_keys')
    .values({
      account_id: key.accountId,
      name: key.name,
      hash: key.hash,
      hint: key.hint,
      expires_at: key.expiresAt,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
}

export async function markRevoked(db: Database, id: string): Promise<void> {
  await db.updateTable('api_keys').set({ revoked_at: sql`now()` }).where('id', '=', id).execute();
}

/** Lets a key end at a time, or at its own expiry where that comes first. */
export function shortenExpiry(
  db: Database,
  id: string,
  expiresAt: Date,
): Promise<{ expiresAt: Date | null }> {
  return db
    .updateTable('api_keys')
    .set({ expires_at: sql<Date>`least(expires_at, ${expiresAt}::timestamptz)` })
    .where('id', '=', id)
    .returning('expires_at as expiresAt')
    .executeTakeFirstOrThrow();
}

/** The database's clock, `milliseconds` from now. */
export async function timeFromNow(db: Database, milliseconds: number): Promise<Date> {
  const { rows } = await sql<{
    at: Date;
  }>`SELECT now() + ${milliseconds} * interval '1 millisecond' AS at`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('SELECT without FROM gives one row');
  return row.at;
}

/** Notes that keys were used, at most once a minute for each. A row that another replica is writing is passed over. */
export async function touchKeys(db: Database, ids: readonly string[]): Promise<void> {
  const due = db
    .selectFrom('api_keys')
    .select('id')
    .where('id', '=', sql<string>`any(${ids}::uuid[])`)
    .where((eb) =>
      eb.or([
        eb('last_used_at', 'is', null),
        eb('last_used_at', '<=', sql<Date>`now() - ${SECONDS_BETWEEN_USES} * interval '1 second'`),
      ]),
    )
    .forUpdate()
    .skipLocked();
  await db.updateTable('api_keys').set({ last_used_at: sql`now()` }).where('id', 'in', due).execute();
}
