import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, serverEnvironment } from './cluster.ts';
import { readPidFile } from './postmaster.ts';
import type { SystemUser } from './system-user.ts';

const START_TIMEOUT_MS = 60_000;
const POLL_MS = 10;

/** What a server is started with. */
export interface LaunchOptions {
  binaries: string;
  cluster: Cluster;
  port: number;
  /** Settings of `postgresql.conf`. */
  settings: Readonly<Record<string, string>>;
  user: SystemUser;
}

/** Starts a server process, which also ends when this process is killed. */
export function launch({ binaries, cluster, port, settings, user }: LaunchOptions): ChildProcess {
  const options = {
    listen_addresses: '127.0.0.1',
    port: `${port}`,
    unix_socket_directories: '',
    ...settings,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(path.join(binaries, 'bin', 'postgres'), ['-D', cluster.data, ...flags], {
    ...user,
    env: serverEnvironment,
    cwd: '/',
    detached: true, // Ctrl-C in a terminal reaches only us, so that requests under way still have their database
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  guard(server);
  server.unref();
  return server;
}

/** A shell whose stdin ends when this process does, however that ends, and which then stops the server. */
function guard(server: ChildProcess): void {
  if (server.pid === undefined) return; // it could not be started
  const script = 'cat >/dev/null; kill -INT "$1"';
  const watchdog = spawn('/bin/sh', ['-c', script, 'watchdog', `${server.pid}`], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watchdog.unref();
  if (watchdog.stdin instanceof net.Socket) watchdog.stdin.unref();
  server.once('exit', () => watchdog.kill('SIGKILL'));
}

/** @returns undefined once the server accepts connections; else what it said before it ended */
export async function waitUntilReady(server: ChildProcess, { data }: Cluster): Promise<string | undefined> {
  let output = '';
  let ended = false;
  server.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-2000);
  });
  server.once('exit', () => {
    ended = true;
  });
  server.once('error', (error) => {
    ended = true;
    output += error.message;
  });
  for (
    const deadline = Date.now() + START_TIMEOUT_MS;
    Date.now() < deadline && !ended;
    await sleep(POLL_MS)
  ) {
    const postmaster = readPidFile(data);
    if (postmaster?.ready && postmaster.pid === server.pid) {
      if (server.stderr instanceof net.Socket) server.stderr.unref();
      return undefined;
    }
  }
  return output.trim() || 'it neither said why nor became ready';
}

/** Ends a server: "fast", which ends the sessions and writes everything, or at last without ceremony. */
export async function endServer(server: ChildProcess, timeoutMs: number): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const exited = once(server, 'exit');
  server.ref();
  server.kill('SIGINT');
  const killTimer = setTimeout(() => server.kill('SIGQUIT'), timeoutMs);
  await exited;
  clearTimeout(killTimer);
}
