import type { Database } from '../../src/db/database.ts';
import { createKey, revokeKey } from '../../src/keys/commands.ts';
import { generateKey } from '../../src/keys/format.ts';

/** The service, and what a client needs to know of it. */
export interface Target {
  readonly port: number;
  /** Good API keys, each of an account of its own. */
  readonly keys: readonly string[];
  /** Well-formed API keys that are not good: unknown, revoked, expired. */
  readonly badKeys: readonly string[];
}

/** A service that listens on a port, with keys in its database that are good, and others that are not any more. */
export async function createTarget(db: Database, port: number): Promise<Target> {
  const create = (account: string, expiresIn: number | null = null) =>
    createKey(db, { account, name: 'fuzz', environment: 'test', expiresIn, actor: 'fuzz' });
  const [one, other] = [await create('one'), await create('another')];
  const expired = await create('one', 0);
  const revoked = await create('one');
  await revokeKey(db, revoked.id, 'fuzz');
  return {
    port,
    keys: [one.secret, other.secret],
    badKeys: [expired.secret, revoked.secret, generateKey('test'), generateKey('live')],
  };
}
