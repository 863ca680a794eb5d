import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { pino } from 'pino';
import { loadConfig } from '../src/config.ts';
import { type Database, openDatabase } from '../src/db/database.ts';
import { migrate } from '../src/db/migrate.ts';
import { startTemporaryPostgres } from '../src/dev/postgres/temporary.ts';
import { createKey } from '../src/keys/commands.ts';
import { showProgress } from './progress.ts';
import { seed } from './seed.ts';

const EMBEDDED_SETTINGS = {
  max_connections: '200',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  autovacuum: 'off', // its work would be counted for whoever is measured at the moment
};

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
  const embedded = givenUrl ? undefined : await startTemporaryPostgres(EMBEDDED_SETTINGS);
  const url = givenUrl || String(embedded?.url('postgres'));
  const admin = connect(url);
  const { rows } = await sql<{ pid: number; version: string }>`
    SELECT pg_backend_pid() AS pid, current_setting('server_version') AS version`.execute(admin);
  const [backend] = rows;
  if (backend === undefined) throw new Error('SELECT without FROM gives one row');

  return {
    version: backend.version,
    pid: parentOf(backend.pid),
    createDatabase: async (count) => {
      const name = `animal_store_bench_${randomBytes(4).toString('hex')}`;
      await sql`CREATE DATABASE ${sql.id(name)}`.execute(admin);
      return fill(admin, { url, name, rows: count });
    },
    stop: async () => {
      await admin.destroy();
      await embedded?.stop();
    },
  };
}

async function fill(admin: Database, { url, name, rows }: { url: string; name: string; rows: number }) {
  const own = new URL(url);
  own.pathname = `/${name}`;
  const db = connect(own.href);
  await migrate(db);
  await seed(db, rows, (done) => showProgress(`adding ${rows.toLocaleString('en')} animals`, done / rows));
  const { secret } = await createKey(db, {
    account: 'bench',
    name: 'bench',
    environment: 'live',
    expiresIn: null,
    actor: 'bench',
  });
  return {
    url: own.href,
    key: secret,
    rows,
    db,
    slowCommits: async (milliseconds: number) => {
      try {
        await sql`ALTER DATABASE ${sql.id(name)} SET commit_siblings = 0`.execute(admin);
        const delay = sql.lit(milliseconds * 1000);
        await sql`ALTER DATABASE ${sql.id(name)} SET commit_delay = ${delay}`.execute(admin);
        return true;
      } catch {
        return false;
      }
    },
    drop: async () => {
      await db.destroy();
      await sql`DROP DATABASE ${sql.id(name)} WITH (FORCE)`.execute(admin);
    },
  };
}

function connect(url: string): Database {
  return openDatabase(
    { ...loadConfig({ DATABASE_URL: url }), databasePoolSize: 1 },
    pino({ level: 'silent' }),
    {
      limitStatements: false,
    },
  );
}

/** The parent of a process of this machine, if it is PostgreSQL's. */
function parentOf(pid: number): number | undefined {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return undefined;
  const [, name, parent] = /^\d+ \((.*)\) . (\d+)/s.exec(readFileSync(file, 'utf8')) ?? [];
  return name === 'postgres' ? Number(parent) : undefined;
}
