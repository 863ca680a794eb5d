import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { type CommandOptions, projectFolder, type Running, start } from './command.ts';

/** Another checkout of the project, with the packages of this one. */
export interface DevProject {
  folder: string;
  remove(): void;
}

export interface DevProjectOptions {
  name?: string;
  mode?: number;
  owner?: number;
  /** Packages to copy rather than link. */
  copied?: string[];
}

export function createProject({
  name = 'project',
  mode = 0o755,
  owner,
  copied = [],
}: DevProjectOptions = {}): DevProject {
  const parent = mkdtempSync(path.join(tmpdir(), 'animal-store-dev-'));
  const folder = path.join(parent, name);
  mkdirSync(folder);
  for (const item of ['src', 'migrations', 'tools', 'package.json', 'tsconfig.json']) {
    cpSync(path.join(projectFolder, item), path.join(folder, item), { recursive: true });
  }
  const packages = path.join(folder, 'node_modules');
  mkdirSync(packages);
  for (const item of readdirSync(path.join(projectFolder, 'node_modules'))) {
    const original = path.join(projectFolder, 'node_modules', item);
    if (copied.includes(item))
      cpSync(original, path.join(packages, item), { recursive: true, verbatimSymlinks: true });
    else symlinkSync(original, path.join(packages, item));
  }
  if (owner !== undefined) {
    for (const item of [parent, folder]) chownSync(item, owner, owner);
  }
  chmodSync(parent, mode);
  return {
    folder,
    remove: () => rmSync(parent, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }),
  };
}

/** `npm run dev`, once it is ready. */
export interface DevRun {
  running: Running;
  origin: string;
  key: string;
  /** The line that it printed, to be pasted. */
  curl: string;
  /** Milliseconds from the command to ready. */
  readyAfter: number;
  /** The process ids of npm and all that it started. */
  pids(): number[];
}

export async function npmRunDev({ folder }: DevProject, options: CommandOptions = {}): Promise<DevRun> {
  const begun = performance.now();
  const running = start('npm', ['run', 'dev'], { cwd: folder, ...options });
  const curl = () => /^curl .*$/m.exec(running.stdout)?.[0] ?? '';
  const isSettled = () => curl() !== '' || running.process.exitCode !== null;
  await expect.poll(isSettled, { timeout: 30_000, interval: 5 }).toBe(true);
  if (curl() === '') throw new Error(`npm run dev ended: ${running.stdout}${running.stderr}`);
  const readyAfter = performance.now() - begun;
  return {
    running,
    origin: /http:\/\/[\d.:]+/.exec(curl())?.[0] ?? '',
    key: /Bearer (\w+)/.exec(curl())?.[1] ?? '',
    curl: curl(),
    readyAfter,
    pids: () => descendants(Number(running.process.pid)),
  };
}

/** Presses Ctrl-C: a terminal sends SIGINT to the whole group. */
export function pressControlC({ running }: DevRun): void {
  process.kill(-Number(running.process.pid), 'SIGINT');
}

export async function expectAllGone(pids: number[]): Promise<void> {
  const alive = () => processes().filter(({ pid, state }) => pids.includes(pid) && !state.startsWith('Z'));
  await expect.poll(alive, { timeout: 10_000 }).toEqual([]);
}

export interface ProcessRow {
  pid: number;
  parent: number;
  state: string;
  command: string;
}

export function processes(): ProcessRow[] {
  if (!existsSync('/proc/self/stat')) return processesByPs();
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const [, state = '', parent] =
          /\) (\S) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? [];
        const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ');
        return [{ pid: Number(pid), parent: Number(parent), state, command }];
      } catch {
        return []; // it ended meanwhile
      }
    });
}

function processesByPs(): ProcessRow[] {
  const rows = execFileSync('ps', ['-eo', 'pid=,ppid=,stat=,args='], { encoding: 'utf8' }).trim().split('\n');
  return rows.map((row) => {
    const [, pid, parent, state = '', command = ''] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(row) ?? [];
    return { pid: Number(pid), parent: Number(parent), state, command };
  });
}

export function descendants(pid: number): number[] {
  const rows = processes();
  const found = [pid];
  for (const ancestor of found) {
    found.push(...rows.filter(({ parent }) => parent === ancestor).map((row) => row.pid));
  }
  return found;
}
