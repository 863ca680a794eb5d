import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The embedded PostgreSQL cannot run on this machine; the message says why and what to do instead. */
export class EmbeddedPostgresUnavailable extends Error {
  constructor(reason: string) {
    super(`the embedded PostgreSQL cannot run here (${reason}); use a PostgreSQL server of your own instead`);
  }
}

/** The user that PostgreSQL runs as, where it must not be the present one. */
export interface Account {
  uid?: number;
  gid?: number;
}

/** PostgreSQL refuses to run as root: then it runs as `postgres` or `nobody`, which need no password to become. */
export function serverAccount(): Account {
  if (process.getuid?.() !== 0) return {};
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const user = ['postgres', 'nobody'].flatMap((name) => users.filter((fields) => fields[0] === name)).at(0);
  if (user === undefined) {
    throw new EmbeddedPostgresUnavailable(
      'it is started as root, and there is no user "postgres" or "nobody"',
    );
  }
  return { uid: Number(user[2]), gid: Number(user[3]) };
}

/** Whether the account can enter a folder: one inside a home folder of root it cannot. */
export function canEnter(folder: string, account: Account): boolean {
  if (account.uid === undefined) return true;
  return spawnSync('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], { ...account, cwd: '/' }).status === 0;
}
