import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { findFreePort } from '../src/dev/postgres/postmaster.ts';

/** The ids of this service, and of the floor: one constant page without a key, the least that such a server can do. */
export const SERVICE = 'animal-store';
export const FLOOR = 'floor';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PEERS = path.join(ROOT, 'bench', 'peers');
const POLL_MS = 50;
const START_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 10_000;

/** A server that is measured. */
export interface Target {
  readonly id: string;
  readonly title: string;
  /** Run by `/bin/sh` in the root folder of the project. */
  readonly command: string;
}

export interface RunningTarget extends Target {
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

/** Builds the service and its peers. @param folder for what is built outside the project */
export function prepareTargets(folder: string): Target[] {
  run('npm', ['run', '--silent', 'build'], ROOT);
  if (!areInstalled()) run('npm', ['ci', '--silent'], PEERS);

  const { scripts } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  const peer = (file: string) => `exec tools/node26/run node bench/peers/${file}`;
  const targets: Target[] = [
    { id: SERVICE, title: 'animal store', command: scripts.start },
    { id: 'go-pgx', title: 'Go net/http + pgx', command: `exec ${path.join(folder, 'go-pgx')}` },
    { id: 'fastify-kysely', title: 'Fastify + Kysely', command: peer('fastify-kysely.ts') },
    { id: 'express-drizzle', title: 'Express + zod + Drizzle', command: peer('express-drizzle.ts') },
    { id: 'express-sequelize', title: 'Express + zod + Sequelize', command: peer('express-sequelize.ts') },
    { id: FLOOR, title: 'Fastify, a constant answer', command: peer('fastify-constant.ts') },
  ];
  return buildGoPeer(folder) ? targets : targets.filter(({ id }) => id !== 'go-pgx');
}

/** Whether the packages of the peers are those of their lock file. */
function areInstalled(): boolean {
  const changedAt = (file: string) =>
    statSync(path.join(PEERS, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return changedAt('node_modules/.package-lock.json') > changedAt('package-lock.json');
}

function buildGoPeer(folder: string): boolean {
  const binary = path.join(folder, 'go-pgx');
  const { status, error, stderr } = spawnSync('go', ['build', '-o', binary, '.'], {
    cwd: path.join(PEERS, 'go-pgx'),
    encoding: 'utf8',
  });
  if (status === 0) return true;
  const reason =
    error === undefined ? `it does not build: ${stderr.trim()}` : 'there is no Go toolchain here';
  console.log(`Go net/http + pgx is skipped: ${reason}`);
  return false;
}

function run(command: string, args: string[], cwd: string): void {
  const { status } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  if (status !== 0) throw new Error(`"${command} ${args.join(' ')}" failed in ${cwd}`);
}

/** Starts a server on a free port, and waits until it answers. Its log goes to /dev/null. */
export async function startTarget(
  target: Target,
  { url, key }: { url: string; key: string },
): Promise<RunningTarget> {
  const port = await findFreePort(0);
  const settings = { DATABASE_URL: url, PORT: `${port}`, OPS_PORT: '0', NODE_ENV: 'production' };
  const child = spawn('/bin/sh', ['-c', target.command], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...documentedSettings(), ...settings },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  await waitUntilAnswering(target, child, { port, key });
  return {
    ...target,
    port,
    pid: Number(child.pid),
    stop: async () => {
      const timeout = setTimeout(kill, STOP_TIMEOUT_MS);
      if (isAlive(child) && child.kill('SIGTERM')) await once(child, 'exit');
      clearTimeout(timeout);
      process.off('exit', kill);
    },
  };
}

/** The defaults, so that a developer's `.env` does not decide what is measured. */
function documentedSettings() {
  return parseEnv(readFileSync(path.join(ROOT, '.env.example'), 'utf8'));
}

async function waitUntilAnswering(
  { title }: Target,
  child: ChildProcess,
  { port, key }: { port: number; key: string },
): Promise<void> {
  for (let waited = 0; waited < START_TIMEOUT_MS && isAlive(child); waited += POLL_MS) {
    try {
      const headers = { authorization: `Bearer ${key}` };
      const { ok } = await fetch(`http://127.0.0.1:${port}/v1/pets`, { headers });
      if (ok) return;
    } catch {
      // It does not listen yet.
    }
    await sleep(POLL_MS);
  }
  child.kill('SIGKILL');
  throw new Error(`${title} did not start`);
}

function isAlive({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}
