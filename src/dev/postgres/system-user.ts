import { spawnSync } from 'node:child_process';
import { lstatSync, readFileSync } from 'node:fs';

/** The embedded PostgreSQL cannot run on this machine; the message says why and what to do instead. */
export class EmbeddedPostgresUnavailable extends Error {
  constructor(reason: string) {
    super(`the embedded PostgreSQL cannot run here (${reason}); use a PostgreSQL server of your own instead`);
  }
}

/** The user of the operating system that PostgreSQL runs as; empty where that is the present one. */
export interface SystemUser {
  uid?: number;
  gid?: number;
}

/** PostgreSQL refuses to run as root: then it runs as `postgres` or `nobody`, which need no password to become. */
export function serverUser(): SystemUser {
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

/** Whether the user can enter a folder: one inside the home folder of root it cannot. */
export function canEnter(folder: string, user: SystemUser): boolean {
  if (user.uid === undefined) return true;
  return spawnSync('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], { ...user, cwd: '/' }).status === 0;
}

/**
 * Makes sure of a folder under /var/tmp, where anybody may put one of the same name.
 *
 * @throws EmbeddedPostgresUnavailable where it is somebody else's, or no folder
 */
export function checkOwnFolder(folder: string): void {
  const stats = lstatSync(folder);
  if (!stats.isDirectory() || stats.uid !== process.getuid?.()) {
    throw new EmbeddedPostgresUnavailable(`${folder} belongs to another user`);
  }
}
