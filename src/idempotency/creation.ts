import { hash } from 'node:crypto';
import type { RawBuilder } from 'kysely';
import { attemptRead, attemptWrite } from '../db/attempts.ts';
import { Batcher } from '../db/batch.ts';
import type { Database } from '../db/database.ts';
import { isUnavailable, OutcomeUnknown } from '../db/errors.ts';
import { ApiError } from '../http/errors.ts';
import { type Claim, claimKeys, findClaims, type Operation } from './repository.ts';

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

export interface CreationOptions<New, Created> {
  db: Database;
  /** The `operationId` that the keys hold for. */
  operation: Operation;
  /**
   * What would be stored: requests that are the same in this are the same. Keys never expire, so this is a format that
   * stays: what a later release adds may only be appended, and only where it was given.
   */
  meaning(resource: New): readonly (string | null)[];
  /**
   * Stores, by one statement, the resources whose keys can be claimed.
   *
   * @param claim the INSERT of the keys, for a WITH of that statement: see `claimKeys`
   * @returns in the order of the creations; undefined for each whose key was taken
   */
  insert(
    creations: readonly KeyedCreation<New>[],
    claim: RawBuilder<unknown>,
  ): Promise<readonly (Created | undefined)[]>;
  /** Finds a resource by its id, as `idempotency_keys` has it. */
  find(resourceId: string, startBy: number): Promise<Created | undefined>;
}

/** Creates a resource, or gives the one that was created under the same key. @throws ApiError `idempotency_key_reused` */
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
  const claim = claimKeys(operation);
  const creations = new Batcher<KeyedCreation<New>, Created | undefined>({
    many: (keyed) => attemptWrite(() => insert(keyed, claim)),
  });
  const claims = new Batcher<IdempotencyKey, Claim | undefined>({
    many: (keys) => attemptRead(() => findClaims(db, operation, keys)),
  });

  /** What the key was used for before. */
  const findCreated = async (idempotencyKey: IdempotencyKey, fingerprint: Buffer, startBy: number) => {
    const claimed = await claims.call(idempotencyKey, startBy);
    if (claimed === undefined) throw new Error('an idempotency key is taken, but is not there');
    if (!claimed.fingerprint.equals(fingerprint)) throw keyReused();
    const created = await find(claimed.resourceId, startBy);
    if (created === undefined) throw new Error('the resource of an idempotency key is not there');
    return created;
  };

  return async (resource, idempotencyKey, startBy) => {
    const fingerprint = hash('sha256', JSON.stringify(meaning(resource)), 'buffer');
    const created = await creations.call({ resource, idempotencyKey, fingerprint }, startBy);
    if (created !== undefined) return created;
    try {
      return await findCreated(idempotencyKey, fingerprint, startBy);
    } catch (error) {
      throw isUnavailable(error) ? new OutcomeUnknown(error) : error; // something was stored, by whomever
    }
  };
}

function keyReused(): ApiError {
  return new ApiError('idempotency_key_reused', 'The Idempotency-Key was used before, with another body.');
}
