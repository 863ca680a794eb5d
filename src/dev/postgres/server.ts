import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Account, serverAccount } from './account.ts';
import { findBinaries } from './binaries.ts';
import { type Cluster, prepareCluster, serverEnvironment } from './cluster.ts';
import { choosePort, findRunning, isAlive, type Postmaster, readPidFile } from './postmaster.ts';

export interface EmbeddedPostgres {
  /** A connection string for one of its databases. */
  url(database: string): string;
  /** Where its data is: the folder asked for, or another one where PostgreSQL cannot enter that. */
  readonly folder: string;
  /** Resolves when the server is gone, for whatever reason. */
  readonly gone: Promise<void>;
  /** Ends the server, unless another process started it. */
  stop(): Promise<void>;
}

const ATTEMPTS = 40;
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;
const POLL_MS = 10;
const PRESENCE_POLL_MS = 250;

/** Why a start may succeed a moment later: another process has the port or the data, or is just leaving them. */
const PASSING_PROBLEM = /could not bind|could not create any TCP|shared memory block|lock file/;

/**
 * Starts a PostgreSQL server on 127.0.0.1 with its data in a folder, or shares the one that is running there already.
 * A server that it started also ends when this process is killed.
 *
 * @param settings of `postgresql.conf`
 */
export async function startPostgres(
  folder: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<EmbeddedPostgres> {
  const account = serverAccount();
  const binaries = findBinaries(account);
  const cluster = prepareCluster(path.resolve(folder), binaries, account);

  for (let attempt = 1; ; attempt++) {
    const running = await findRunning(cluster.data);
    if (running !== undefined) return shared(cluster, running);

    const port = await choosePort(cluster.portFile);
    const server = launch(binaries, cluster, port, settings, account);
    const problem = await waitUntilReady(server, cluster);
    if (problem === undefined) {
      writeFileSync(cluster.portFile, `${port}\n`);
      return owned(cluster, server, port);
    }
    server.kill('SIGQUIT');
    if (attempt === ATTEMPTS || !PASSING_PROBLEM.test(problem))
      throw new Error(`PostgreSQL did not start: ${problem}`);
    await sleep(PRESENCE_POLL_MS);
  }
}

function launch(
  binaries: string,
  { data }: Cluster,
  port: number,
  settings: Readonly<Record<string, string>>,
  account: Account,
): ChildProcess {
  const options = {
    listen_addresses: '127.0.0.1',
    port: `${port}`,
    unix_socket_directories: '',
    ...settings,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return spawn(path.join(binaries, 'bin', 'postgres'), ['-D', data, ...flags], {
    ...account,
    env: serverEnvironment,
    cwd: '/',
    detached: true, // Ctrl-C in a terminal reaches only us, so that requests under way still have their database
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** @returns undefined once the server accepts connections; else what it said before it ended */
async function waitUntilReady(server: ChildProcess, cluster: Cluster): Promise<string | undefined> {
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
    const postmaster = readPidFile(cluster.data);
    if (postmaster?.ready && postmaster.pid === server.pid) return undefined;
  }
  return output.trim() || 'it neither said why nor became ready';
}

function owned(cluster: Cluster, server: ChildProcess, port: number): EmbeddedPostgres {
  const watchdog = guard(server);
  const exited = once(server, 'exit').then(() => {
    watchdog.kill('SIGKILL');
  });
  server.unref();
  server.stderr?.resume();
  if (server.stderr instanceof net.Socket) server.stderr.unref();
  return {
    url: connectionString(cluster, port),
    folder: cluster.folder,
    gone: exited,
    async stop() {
      server.ref();
      server.kill('SIGINT'); // "fast": ends the sessions, and writes everything
      const impatience = setTimeout(() => server.kill('SIGQUIT'), STOP_TIMEOUT_MS);
      await exited;
      clearTimeout(impatience);
    },
  };
}

/** A shell whose stdin ends when this process does, however that ends, and which then stops the server. */
function guard(server: ChildProcess): ChildProcess {
  const script = 'cat >/dev/null; kill -INT "$1"';
  const watchdog = spawn('/bin/sh', ['-c', script, 'watchdog', String(server.pid)], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watchdog.unref();
  if (watchdog.stdin instanceof net.Socket) watchdog.stdin.unref();
  return watchdog;
}

function shared(cluster: Cluster, { pid, port }: Postmaster): EmbeddedPostgres {
  const watch = async () => {
    while (isAlive(pid)) await sleep(PRESENCE_POLL_MS, undefined, { ref: false });
  };
  return {
    url: connectionString(cluster, port),
    folder: cluster.folder,
    gone: watch(),
    stop: async () => {},
  };
}

function connectionString({ password }: Cluster, port: number) {
  return (database: string) => `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
}
