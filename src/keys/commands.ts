import { findOrCreateAccount } from '../accounts/commands.ts';
import { insertAuditEvent } from '../audit/repository.ts';
import { CommandError } from '../command-error.ts';
import type { KeyEnvironment } from '../config.ts';
import type { Database } from '../db/database.ts';
import { generateKey, hashKey, hintOf } from './format.ts';
import { insertKey, lockKey, markRevoked, shortenExpiry, timeFromNow } from './repository.ts';

/** A key just made. `secret` is the key itself: this is the only time that it can be seen. */
export interface CreatedKey {
  id: string;
  secret: string;
  expiresAt: Date | null;
}

export interface CreateKeyOptions {
  account: string;
  name: string;
  environment: KeyEnvironment;
  /** Milliseconds; null for a key that does not expire. */
  expiresIn: number | null;
  actor: string;
}

/** Makes a key for the account of that name, and the account too where there is none. */
export function createKey(db: Database, options: CreateKeyOptions): Promise<CreatedKey> {
  const { account: accountName, name, environment, expiresIn, actor } = options;
  return db.transaction().execute(async (transaction) => {
    const account = await findOrCreateAccount(transaction, accountName, actor);
    const expiresAt = expiresIn === null ? null : await timeFromNow(transaction, expiresIn);
    return addKey(transaction, { accountId: account.id, name, environment, expiresAt, actor });
  });
}

export interface RotateKeyOptions {
  environment: KeyEnvironment;
  /** Milliseconds for which the old key stays good, beside the new one. */
  overlap: number;
  actor: string;
}

/**
 * Replaces a key: the new one has its account, its name and its expiry, the old one ends after the overlap.
 *
 * @throws CommandError where there is no such key, or it is not good any more
 */
export function rotateKey(db: Database, id: string, options: RotateKeyOptions): Promise<CreatedKey> {
  const { environment, overlap, actor } = options;
  return db.transaction().execute(async (transaction) => {
    const old = await existingKey(transaction, id);
    if (old.revokedAt !== null) throw new CommandError(`key ${id} is revoked: create a new one instead`);
    if (old.hasExpired) throw new CommandError(`key ${id} has expired: create a new one instead`);

    const { accountId, name, expiresAt } = old;
    const created = await addKey(transaction, { accountId, name, environment, expiresAt, actor });
    const ended = await shortenExpiry(transaction, id, await timeFromNow(transaction, overlap));
    await insertAuditEvent(transaction, {
      actor,
      action: 'key.rotated',
      account_id: accountId,
      key_id: id,
      details: { replacement: created.id, expiresAt: String(ended.expiresAt?.toISOString()) },
    });
    return created;
  });
}

/**
 * Revokes a key: it is refused from the next request on.
 *
 * @returns false where it was revoked before
 * @throws CommandError where there is no such key
 */
export function revokeKey(db: Database, id: string, actor: string): Promise<boolean> {
  return db.transaction().execute(async (transaction) => {
    const key = await existingKey(transaction, id);
    if (key.revokedAt !== null) return false;
    await markRevoked(transaction, id);
    await insertAuditEvent(transaction, {
      actor,
      action: 'key.revoked',
      account_id: key.accountId,
      key_id: id,
    });
    return true;
  });
}

async function existingKey(transaction: Database, id: string) {
  const key = await lockKey(transaction, id);
  if (key === undefined) throw new CommandError(`there is no key ${id}`);
  return key;
}

interface AddedKey {
  accountId: string;
  name: string;
  environment: KeyEnvironment;
  expiresAt: Date | null;
  actor: string;
}

async function addKey(transaction: Database, { environment, actor, ...key }: AddedKey): Promise<CreatedKey> {
  const secret = generateKey(environment);
  const { id } = await insertKey(transaction, { ...key, hash: hashKey(secret), hint: hintOf(secret) });
  await insertAuditEvent(transaction, {
    actor,
    action: 'key.created',
    account_id: key.accountId,
    key_id: id,
  });
  return { id, secret, expiresAt: key.expiresAt };
}
