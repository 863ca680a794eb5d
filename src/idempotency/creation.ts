import { hash } from 'node:crypto';
import { Batcher } from '../db/batch.ts';
import type { Database } from '../db/database.ts';
import { type Claim, findClaims } from './repository.ts';

/** An Idempotency-Key, which is the client's own word, within its account. */
export interface IdempotencyKey {
  readonly accountId: string;
  readonly key: string;
}

/** A resource to create under a key. */
export interface KeyedCreation<New> {
  readonly resource: New;
  readonly idempotencyKey: IdempotencyKey;
  /** SHA-256 of what would be stored. */
  readonly fingerprint: Buffer;
}

/** The key was used before, for a resource that differs. */
export class IdempotencyKeyReused extends Error {}

export interface CreationOptions<New, Created> {
  db: Database;
  /** The `operationId` that the keys hold for. */
  operation: string;
  /** What would be stored: requests that are the same in this are the same. */
  meaning(resource: New): readonly (string | null)[];
  /**
   * Stores, by one statement, the resources whose keys `claimKeys` can claim.
   *
   * @returns in the order of the creations; undefined for each whose key was taken
   */
  insert(creations: readonly KeyedCreation<New>[]): Promise<readonly (Created | undefined)[]>;
  /** Finds a resource by its id, as `idempotency_keys` has it. */
  find(resourceId: string, startBy: number): Promise<Created | undefined>;
}

/** Creates a resource, or gives the one that was created under the same key. @throws IdempotencyKeyReused */
export type CreateOnce<New, Created> = (
  resource: New,
  idempotencyKey: IdempotencyKey,
  startBy: number,
) => Promise<Created>;

/**
 * Creation under Idempotency-Keys. Key and resource are stored by one statement, so that there is never one without the
 * other; of those who claim the same key at the same time, on whatever replica, the database lets the others wait.
 */
export function creationOnce<New, Created>(options: CreationOptions<New, Created>): CreateOnce<New, Created> {
  const { db, operation, meaning, insert, find } = options;
  const creations = new Batcher<KeyedCreation<New>, Created | undefined>({
    one: async (creation) => (await insert([creation]))[0],
    many: insert,
  });
  const claims = new Batcher<IdempotencyKey, Claim | undefined>({
    one: async (key) => (await findClaims(db, operation, [key]))[0],
    many: (keys) => findClaims(db, operation, keys),
  });

  return async (resource, idempotencyKey, startBy) => {
    const fingerprint = hash('sha256', JSON.stringify(meaning(resource)), 'buffer');
    const created = await creations.call({ resource, idempotencyKey, fingerprint }, startBy);
    if (created !== undefined) return created;

    const claim = await claims.call(idempotencyKey, startBy);
    if (claim === undefined) throw new Error('an idempotency key is taken, but is not there');
    if (!claim.fingerprint.equals(fingerprint)) throw new IdempotencyKeyReused();
    const before = await find(claim.resourceId, startBy);
    if (before === undefined) throw new Error('the resource of an idempotency key is not there');
    return before;
  };
}
