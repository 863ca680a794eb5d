import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../db/database.ts';
import type { Tables } from '../db/schema.ts';
import type { IdempotencyKey, KeyedCreation } from './creation.ts';

/** An `operationId` that keys hold for. */
export type Operation = Tables['idempotency_keys']['operation'];

/** What a key was used for. */
export interface Claim {
  resourceId: string;
  fingerprint: Buffer;
}

/** The columns of keyed creations that `claimKeys` takes, as arrays. */
export function keyColumns(creations: readonly KeyedCreation<unknown>[]) {
  return {
    accountIds: creations.map(({ idempotencyKey }) => idempotencyKey.accountId),
    keys: creations.map(({ idempotencyKey }) => idempotencyKey.key),
    fingerprints: creations.map(({ fingerprint }) => fingerprint),
  };
}

/**
 * An INSERT of the keys that nobody has used yet, for a WITH. It returns `resource_id` for each that it could claim.
 * While another transaction is claiming a key, it waits. All claim in the same order, so that no two wait for each other.
 *
 * It reads from `given`, with the columns `id` of the resource, `account_id`, `key`, `fingerprint` and `number`.
 */
export function claimKeys(operation: Operation): RawBuilder<unknown> {
  return sql`
    INSERT INTO idempotency_keys (account_id, operation, key, fingerprint, resource_id)
    SELECT account_id, ${operation}, key, fingerprint, id::text FROM given
    ORDER BY account_id, key COLLATE "C", number
    ON CONFLICT (account_id, operation, key) DO NOTHING
    RETURNING resource_id`;
}

export async function findClaims(
  db: Database,
  operation: Operation,
  keys: readonly IdempotencyKey[],
): Promise<(Claim | undefined)[]> {
  const accountIds = keys.map(({ accountId }) => accountId);
  const texts = keys.map(({ key }) => key);
  const { rows } = await sql<Claim & { number: number }>`
    SELECT wanted.number::int, resource_id AS "resourceId", fingerprint
    FROM unnest(${accountIds}::uuid[], ${texts}::text[]) WITH ORDINALITY AS wanted (account_id, key, number)
    JOIN idempotency_keys AS claim
      ON claim.account_id = wanted.account_id AND claim.operation = ${operation} AND claim.key = wanted.key
  `.execute(db);
  const claims = new Map(rows.map(({ number, ...claim }) => [number, claim]));
  return keys.map((_key, index) => claims.get(index + 1));
}
