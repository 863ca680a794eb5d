import { createAccount } from '../accounts/commands.ts';
import { CommandError } from '../command-error.ts';
import type { Config } from '../config.ts';
import type { Database } from '../db/database.ts';
import { migrate } from '../db/migrate.ts';
import { createKey, revokeKey, rotateKey } from '../keys/commands.ts';
import { listKeys } from '../keys/repository.ts';
import { readArguments, readDuration, readKeyId, readName, required } from './arguments.ts';

const ACTOR = 'command line';

export interface Context {
  db: Database;
  config: Config;
}

/**
 * Reads the arguments of a command, before anything is connected to, and gives what is then to be done. What a
 * script wants goes to stdout, and remarks for people to stderr.
 */
type Command = (args: string[]) => (context: Context) => Promise<void>;

export const commands: Readonly<Record<string, Command>> = {
  migrate(args) {
    readArguments(args, {}, []);
    return async ({ db }) => {
      const names = await migrate(db);
      console.log(names.length === 0 ? 'The schema is current.' : `Migrated: ${names.join(', ')}.`);
    };
  },

  'accounts create'(args) {
    const name = readName('NAME', readArguments(args, {}, ['NAME']).positional('NAME'));
    return async ({ db }) => {
      const account = await createAccount(db, name, ACTOR);
      console.log(account.id);
    };
  },

  'keys create'(args) {
    const options = {
      account: { type: 'string' },
      name: { type: 'string' },
      'expires-in': { type: 'string' },
    } as const;
    const { account, name = 'default', 'expires-in': lifetime } = readArguments(args, options, []).values;
    const accountName = readName('--account', required('--account', account));
    const keyName = readName('--name', name);
    const expiresIn = lifetime === undefined ? null : readDuration('--expires-in', lifetime);
    if (expiresIn === 0) throw new CommandError('--expires-in must be longer than 0s');
    return async ({ db, config }) => {
      const environment = config.keyEnvironment;
      const key = await createKey(db, {
        account: accountName,
        name: keyName,
        environment,
        expiresIn,
        actor: ACTOR,
      });
      console.log(key.secret);
      console.error(
        `Key ${key.id} of account ${accountName}, ${expiry(key.expiresAt)}. It is not shown again.`,
      );
    };
  },

  'keys list'(args) {
    const { json } = readArguments(args, { json: { type: 'boolean' } }, []).values;
    return async ({ db }) => {
      const keys = await listKeys(db);
      if (json) console.log(JSON.stringify(keys, null, 2));
      else console.table(keys);
    };
  },

  'keys revoke'(args) {
    const id = readKeyId(readArguments(args, {}, ['ID']).positional('ID'));
    return async ({ db }) => {
      const revoked = await revokeKey(db, id, ACTOR);
      console.log(revoked ? `Key ${id} is revoked.` : `Key ${id} was revoked before.`);
    };
  },

  'keys rotate'(args) {
    const { values, positional } = readArguments(args, { overlap: { type: 'string' } }, ['ID']);
    const id = readKeyId(positional('ID'));
    const overlap = readDuration('--overlap', required('--overlap', values.overlap));
    return async ({ db, config }) => {
      const key = await rotateKey(db, id, { environment: config.keyEnvironment, overlap, actor: ACTOR });
      console.log(key.secret);
      console.error(`Key ${key.id} replaces ${id}, ${expiry(key.expiresAt)}. It is not shown again.`);
    };
  },
};

function expiry(expiresAt: Date | null): string {
  return expiresAt === null ? 'which does not expire' : `good until ${expiresAt.toISOString()}`;
}
