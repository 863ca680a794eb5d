import { type ChildProcess, execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { migrate } from '../../../src/db/migrate.ts';
import { findBinaries } from '../../../src/dev/postgres/binaries.ts';
import { type Cluster, prepareCluster } from '../../../src/dev/postgres/cluster.ts';
import { endServer, launch, waitUntilReady } from '../../../src/dev/postgres/launch.ts';
import { findFreePort } from '../../../src/dev/postgres/postmaster.ts';
import { type SystemUser, serverUser } from '../../../src/dev/postgres/system-user.ts';
import { connect, lockTable } from '../../support/database.ts';
import { descendants, processes } from '../../support/dev-project.ts';
import { inDatabase, urlOf } from '../../support/postgres.ts';
import { newKey } from '../../support/service.ts';

type Settings = Readonly<Record<string, string>>;

const DATABASE = 'animals';
const STOP_TIMEOUT_MS = 5000;
const POLL_MS = 10;

/** What a signal kills, the kernel keeps: only a power cut would need fsync. */
const DEFAULT_SETTINGS: Settings = { fsync: 'off', max_connections: '60' };

/** A PostgreSQL server of a test's own, to be killed, frozen, restarted and copied at will. Its port stays the same. */
export class ChaosPostgres {
  /** The connection string of the database that the service is to serve. */
  readonly url: string;
  readonly data: string;
  readonly #folder: string;
  readonly #cluster: Cluster;
  readonly #port: number;
  readonly #settings: Settings;
  readonly #binaries: string;
  readonly #user: SystemUser;
  readonly #locks = new Set<() => Promise<void>>();
  #server: ChildProcess | undefined;

  private constructor(folder: string, port: number, settings: Settings) {
    this.#folder = folder;
    this.#port = port;
    this.#settings = settings;
    this.#user = serverUser();
    this.#binaries = findBinaries(this.#user);
    this.#cluster = prepareCluster(folder, this.#binaries, this.#user);
    this.data = this.#cluster.data;
    this.url = `postgres://postgres:${this.#cluster.password}@127.0.0.1:${port}/${DATABASE}`;
  }

  /** Starts a server with an empty database. */
  static async startEmpty(settings: Settings = {}): Promise<ChaosPostgres> {
    const postgres = new ChaosPostgres(makeFolder(), await choosePort(), {
      ...DEFAULT_SETTINGS,
      ...settings,
    });
    return postgres.#orDestroy(async () => {
      await postgres.start();
      const maintenanceUrl = urlOf(postgres.url, 'postgres');
      await inDatabase(maintenanceUrl, (client) => client.query(`CREATE DATABASE ${DATABASE}`));
      return postgres;
    });
  }

  /** Starts a server with a migrated database, and a key for it. */
  static async startMigrated(settings?: Settings): Promise<{ postgres: ChaosPostgres; key: string }> {
    const postgres = await ChaosPostgres.startEmpty(settings);
    return postgres.#orDestroy(async () => {
      const db = connect(postgres.url);
      try {
        await migrate(db);
        return { postgres, key: await newKey(db) };
      } finally {
        await db.destroy();
      }
    });
  }

  async start(): Promise<void> {
    const server = launch({
      binaries: this.#binaries,
      cluster: this.#cluster,
      port: this.#port,
      settings: this.#settings,
      user: this.#user,
    });
    this.#server = server;
    const problem = await waitUntilReady(server, this.#cluster);
    if (problem !== undefined) throw new Error(`PostgreSQL did not start: ${problem}`);
  }

  /** A fast shutdown: it ends the sessions, and writes everything. */
  async shutDown(): Promise<void> {
    if (this.#server !== undefined) await endServer(this.#server, STOP_TIMEOUT_MS);
  }

  /** Ends all of its processes in the middle of what they do. */
  async kill(): Promise<void> {
    const pids = this.#signal('SIGKILL');
    while (processes().some(({ pid, state }) => pids.includes(pid) && !state.startsWith('Z'))) {
      await sleep(POLL_MS);
    }
  }

  /** Stops all of its processes where they are: it keeps its connections, and takes new ones, but says nothing. */
  freeze(): void {
    this.#signal('SIGSTOP');
  }

  thaw(): void {
    this.#signal('SIGCONT');
  }

  /** Has it begin as a hot standby at its next start: it reads only, until `pg_promote()`. */
  makeStandby(): void {
    writeFileSync(path.join(this.data, 'standby.signal'), '');
  }

  /** Starts a standby, on a copy of the data, that follows this server. Shuts this server down meanwhile. */
  async startStandby(name: string, settings: Settings = {}): Promise<ChaosPostgres> {
    await this.shutDown();
    const folder = makeFolder();
    execFileSync('cp', ['-a', path.dirname(this.data), folder]); // with its owner, as cpSync would not
    await this.start();
    const standby = new ChaosPostgres(folder, await choosePort(), {
      ...this.#settings,
      ...settings,
      primary_conninfo: `${urlOf(this.url, 'postgres')}?application_name=${name}`,
    });
    return standby.#orDestroy(async () => {
      standby.makeStandby();
      await standby.start();
      return standby;
    });
  }

  /** Runs a statement in the database that is served. */
  query<Row extends object>(statement: string, values: unknown[] = []): Promise<Row[]> {
    return inDatabase(this.url, async (client) => (await client.query<Row>(statement, values)).rows);
  }

  /** Changes settings of the running server; null brings back what it started with. */
  async configure(settings: Readonly<Record<string, string | null>>): Promise<void> {
    for (const [name, value] of Object.entries(settings)) {
      await this.query(
        value === null ? `ALTER SYSTEM RESET ${name}` : `ALTER SYSTEM SET ${name} = '${value}'`,
      );
    }
    await this.query('SELECT pg_reload_conf()');
  }

  /** Keeps everybody else from a table, until the function that it gives is called. */
  async lock(table: string): Promise<() => Promise<void>> {
    const unlock = await lockTable(this.url, table);
    this.#locks.add(unlock);
    return async () => {
      this.#locks.delete(unlock);
      await unlock();
    };
  }

  /** Cuts the connections of the service. */
  async cutService(): Promise<void> {
    await this.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'animal-store'",
    );
  }

  /** How many connections the service has. */
  async connectionsOfService(): Promise<number> {
    const rows = await this.query("SELECT FROM pg_stat_activity WHERE application_name = 'animal-store'");
    return rows.length;
  }

  /** Ends it, whatever state it is in, and deletes its data. */
  async destroy(): Promise<void> {
    this.thaw();
    for (const unlock of this.#locks) await unlock();
    await this.shutDown();
    for (const folder of [this.#folder, this.#cluster.folder])
      rmSync(folder, { recursive: true, force: true });
  }

  /** The result of an act; where that fails, nothing of the server is left. */
  async #orDestroy<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      await this.destroy();
      throw error;
    }
  }

  /** @returns the processes that were sent the signal: the postmaster first, so that it starts no others meanwhile */
  #signal(signal: NodeJS.Signals): number[] {
    const { pid, exitCode, signalCode } = this.#server ?? {};
    if (pid === undefined || exitCode !== null || signalCode !== null) return [];
    const pids = descendants(pid);
    for (const each of pids) {
      try {
        process.kill(each, signal);
      } catch {
        // It has ended already.
      }
    }
    return pids;
  }
}

function makeFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-chaos-'));
  chmodSync(folder, 0o711); // as root, PostgreSQL runs as a user who must pass through
  return folder;
}

/**
 * A free port below those that systems give to outgoing connections: while the server is away, no connection of a
 * client can happen to take its port.
 */
async function choosePort(): Promise<number> {
  for (;;) {
    try {
      return await findFreePort(randomInt(20_000, 32_000));
    } catch {
      // It is taken.
    }
  }
}
