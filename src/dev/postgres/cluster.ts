import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { canEnter, checkOwnFolder, type SystemUser } from './system-user.ts';

/** The files of one PostgreSQL server. */
export interface Cluster {
  /** The folder that everything of it is in. */
  folder: string;
  data: string;
  password: string;
  /** Remembers the port, so that the address stays the same from one run to the next. */
  portFile: string;
}

export const serverEnvironment = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };

/** The cluster in a folder, or beside it where the user cannot enter that; made by `initdb` the first time. */
export function prepareCluster(wanted: string, binaries: string, user: SystemUser): Cluster {
  mkdirSync(wanted, { recursive: true });
  const folder = canEnter(wanted, user) ? wanted : substituteFor(wanted);
  const root = path.join(folder, 'postgres');
  if (!existsSync(root)) create(root, folder, binaries, user);
  return {
    folder,
    data: path.join(root, 'data'),
    password: readFileSync(path.join(root, 'password'), 'utf8').trim(),
    portFile: path.join(root, 'port'),
  };
}

function substituteFor(folder: string): string {
  const digest = createHash('sha256').update(folder).digest('hex').slice(0, 12);
  const substitute = `/var/tmp/animal-store-${digest}`;
  mkdirSync(substitute, { recursive: true, mode: 0o711 });
  checkOwnFolder(substitute);
  return substitute;
}

function create(root: string, folder: string, binaries: string, user: SystemUser): void {
  const draft = mkdtempSync(path.join(folder, 'initdb-'));
  const passwordFile = path.join(draft, 'password');
  writeFileSync(passwordFile, `${randomBytes(18).toString('base64url')}\n`, { mode: 0o600 });
  chmodSync(draft, 0o700);
  if (user.uid !== undefined && user.gid !== undefined) {
    chownSync(passwordFile, user.uid, user.gid);
    chownSync(draft, user.uid, user.gid);
  }
  const initdb = spawnSync(
    path.join(binaries, 'bin', 'initdb'),
    [
      ...['--pgdata', path.join(draft, 'data'), '--username', 'postgres', '--pwfile', passwordFile],
      ...['--auth', 'scram-sha-256', '--encoding', 'UTF8', '--locale', 'C'],
      ...['--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8', '--no-sync', '--no-instructions'],
    ],
    { ...user, env: serverEnvironment, cwd: '/', encoding: 'utf8' },
  );
  if (initdb.status !== 0) {
    rmSync(draft, { recursive: true, force: true });
    throw new Error(`initdb failed: ${initdb.error?.message ?? initdb.stderr}`);
  }
  try {
    renameSync(draft, root); // whole or not at all
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    if (!existsSync(root)) throw error; // else another process was faster
  }
}
