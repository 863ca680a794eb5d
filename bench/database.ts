import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { pino } from 'pino';
import { loadConfig } from '../src/config.ts';
import { type Database, openDatabase } from '../src/db/database.ts';
import { codeOf } from '../src/db/errors.ts';
import { migrate } from '../src/db/migrate.ts';
import { MIGRATION_LIMITS } from '../src/db/time-limits.ts';
import { startTemporaryPostgres } from '../src/dev/postgres/temporary.ts';
import { createKey } from '../src/keys/commands.ts';
import { parentOf } from './processes.ts';
import { showProgress } from './progress.ts';
import { seed } from './seed.ts';

const EMBEDDED_SETTINGS = {
  max_connections: '200',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  autovacuum: 'off', // its work would be counted for whoever is measured at the moment
};

const LOCAL_HOSTS = new Set(['127.0.0.1', 'localhost', '[::1]', '']);
const INSUFFICIENT_PRIVILEGE = '42501';
const MICROSECONDS_PER_MS = 1000;

/** The PostgreSQL server that all run on. */
export interface DatabaseServer {
  readonly version: string;
  /** Its first process, where it runs on this machine. */
  readonly pid: number | undefined;
  /** Makes a migrated database with that many animals and one key. */
  createDatabase(rows: number): Promise<BenchDatabase>;
  stop(): Promise<void>;
}

export interface BenchDatabase {
  readonly url: string;
  readonly key: string;
  readonly rows: number;
  readonly db: Database;
  /** Has each commit wait that long from the next connection on. @returns false where the user may not */
  slowCommits(milliseconds: number): Promise<boolean>;
  /** Deletes it. */
  drop(): Promise<void>;
}

/** @param givenUrl of a user who may create databases; without it an embedded server is started */
export async function openDatabaseServer(givenUrl: string | undefined): Promise<DatabaseServer> {
  if (givenUrl) return serverAt(givenUrl, async () => {});
  const embedded = await startTemporaryPostgres(EMBEDDED_SETTINGS);
  return serverAt(embedded.url('postgres'), () => embedded.stop());
}

async function serverAt(url: string, stop: () => Promise<void>): Promise<DatabaseServer> {
  const admin = connect(url);
  try {
    const { rows } = await sql<{ pid: number; version: string }>`
      SELECT pg_backend_pid() AS pid, current_setting('server_version') AS version`.execute(admin);
    const [backend] = rows;
    if (backend === undefined) throw new Error('SELECT without FROM gives one row');
    return {
      version: backend.version,
      pid: LOCAL_HOSTS.has(new URL(url).hostname) ? parentOf(backend.pid, 'postgres') : undefined,
      createDatabase: (count) => createDatabase(admin, url, count),
      stop: async () => {
        await admin.destroy();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function createDatabase(admin: Database, serverUrl: string, rows: number): Promise<BenchDatabase> {
  const name = `animal_store_bench_${randomBytes(4).toString('hex')}`;
  await sql`CREATE DATABASE ${sql.id(name)}`.execute(admin);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const db = connect(url.href);
  const drop = async () => {
    await db.destroy();
    await sql`DROP DATABASE ${sql.id(name)} WITH (FORCE)`.execute(admin);
  };
  try {
    const key = await fill(db, rows);
    return { url: url.href, key, rows, db, drop, slowCommits: (delay) => slowCommits(admin, name, delay) };
  } catch (error) {
    await drop();
    throw error;
  }
}

/** @returns the key */
async function fill(db: Database, rows: number): Promise<string> {
  await migrate(db);
  await seed(db, rows, (done) => showProgress(`adding ${rows.toLocaleString('en')} animals`, done / rows));
  const { secret } = await createKey(db, {
    account: 'bench',
    name: 'bench',
    environment: 'live',
    expiresIn: null,
    actor: 'bench',
  });
  return secret;
}

async function slowCommits(admin: Database, database: string, milliseconds: number): Promise<boolean> {
  try {
    const delay = sql.lit(milliseconds * MICROSECONDS_PER_MS);
    await sql`ALTER DATABASE ${sql.id(database)} SET commit_siblings = 0`.execute(admin);
    await sql`ALTER DATABASE ${sql.id(database)} SET commit_delay = ${delay}`.execute(admin);
    return true;
  } catch (error) {
    if (codeOf(error) === INSUFFICIENT_PRIVILEGE) return false;
    throw error;
  }
}

function connect(url: string): Database {
  return openDatabase(
    { ...loadConfig({ DATABASE_URL: url }), databasePoolSize: 1 },
    pino({ level: 'silent' }),
    MIGRATION_LIMITS,
  );
}
