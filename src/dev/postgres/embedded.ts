import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findBinaries } from './binaries.ts';
import { type Cluster, prepareCluster } from './cluster.ts';
import { endServer, launch, waitUntilReady } from './launch.ts';
import { choosePort, findRunning, isAlive, type Postmaster } from './postmaster.ts';
import { serverUser } from './system-user.ts';

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
const RETRY_MS = 250;
const PRESENCE_POLL_MS = 250;
const STOP_TIMEOUT_MS = 10_000;

/** A start may succeed a moment later where another process has the port or the data, or is just leaving them. */
const TRANSIENT_START_FAILURE = /could not bind|could not create any TCP|shared memory block|lock file/;

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
  const user = serverUser();
  const binaries = findBinaries(user);
  const cluster = prepareCluster(path.resolve(folder), binaries, user);

  for (let attempt = 1; ; attempt++) {
    const running = await findRunning(cluster.data);
    if (running !== undefined) return shared(cluster, running);

    const port = await choosePort(cluster.portFile);
    const server = launch({ binaries, cluster, port, settings, user });
    const problem = await waitUntilReady(server, cluster);
    if (problem === undefined) {
      writeFileSync(cluster.portFile, `${port}\n`);
      return owned(cluster, server, port);
    }
    server.kill('SIGQUIT');
    if (attempt === ATTEMPTS || !TRANSIENT_START_FAILURE.test(problem)) {
      throw new Error(`PostgreSQL did not start: ${problem}`);
    }
    await sleep(RETRY_MS);
  }
}

function owned(cluster: Cluster, server: ChildProcess, port: number): EmbeddedPostgres {
  return {
    url: connectionString(cluster, port),
    folder: cluster.folder,
    gone: once(server, 'exit').then(() => {}),
    stop: () => endServer(server, STOP_TIMEOUT_MS),
  };
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
