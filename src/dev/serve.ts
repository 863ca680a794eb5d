import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { pino } from 'pino';
import pretty from 'pino-pretty';
import { type Config, loadConfig } from '../config.ts';
import { type Database, openDatabase } from '../db/database.ts';
import { migrate } from '../db/migrate.ts';
import { MIGRATION_LIMITS } from '../db/time-limits.ts';
import { createKey } from '../keys/commands.ts';
import { hashKey } from '../keys/format.ts';
import { findActiveKey } from '../keys/repository.ts';
import { readEnvironment } from '../environment.ts';
import { ListenError, type Server, startServer } from '../server.ts';
import { describeStartupError } from '../startup-errors.ts';

/** The process that `main.ts` starts anew after each change: migrates, sees to a key, serves. */

const KEY_FILE = new URL('../../.data/key', import.meta.url);
const PORTS_TO_TRY = 20;

try {
  process.on('SIGINT', () => {}); // Ctrl-C reaches the whole group: main.ts decides what ends when
  const [databaseUrl] = await once(process, 'message');
  const environment = readEnvironment();
  const config = loadConfig({
    KEY_ENVIRONMENT: 'test',
    SHUTDOWN_PAUSE_MS: '0', // nobody balances load to it, and it starts anew often
    ...environment,
    DATABASE_URL: String(databaseUrl),
  });
  const logger = pino({ level: config.logLevel, base: null }, pretty({ sync: true, singleLine: true }));

  const db = openDatabase(config, logger, MIGRATION_LIMITS);
  await migrate(db);
  const key = await readyKey(db, config);
  await db.destroy();

  const server = await serveOnFreePort(config);
  console.log(introduction(server.address, key, databaseUrl));
  process.send?.('serving');

  process.once('SIGTERM', () => leave(server));
  process.once('disconnect', () => leave(server)); // main.ts was killed

  /** Without explicit ports a second one beside the first takes the next PORT, and any free OPS_PORT. */
  async function serveOnFreePort(wanted: Config): Promise<Server> {
    const lastPort = environment.PORT ? wanted.port : wanted.port + PORTS_TO_TRY;
    let { port, opsPort } = wanted;
    for (;;) {
      try {
        return await startServer({ ...wanted, port, opsPort }, logger);
      } catch (error) {
        if (!(error instanceof ListenError) || error.code !== 'EADDRINUSE') throw error;
        if (error.portSetting === 'OPS_PORT' && !environment.OPS_PORT) opsPort = 0;
        else if (error.portSetting === 'PORT' && port < lastPort) port++;
        else throw error;
      }
    }
  }
} catch (error) {
  console.error(`animal-store: ${describeStartupError(error)}`);
  process.exit(1);
}

async function leave(server: Server): Promise<void> {
  await server.stop();
  process.exit(0);
}

/** The key of the last run, as long as it is good. It is kept in a file because the database knows only its hash. */
async function readyKey(db: Database, { keyEnvironment }: Config): Promise<string> {
  const kept = (await readFile(KEY_FILE, 'utf8').catch(() => '')).trim();
  if (await findActiveKey(db, hashKey(kept))) return kept;
  const { secret } = await createKey(db, {
    account: 'developer',
    name: 'npm run dev',
    environment: keyEnvironment,
    expiresIn: null,
    actor: 'npm run dev',
  });
  await writeFile(KEY_FILE, `${secret}\n`, { mode: 0o600 });
  return secret;
}

function introduction(address: string, key: string, databaseUrl: string): string {
  return `
Animal store: ${address}   (Ctrl-C ends it; it starts anew when a file in src or migrations changes)
Database:     ${databaseUrl}

Add an animal; without -d and what follows it, the same line lists them:

curl -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' ${address}/v1/pets -d '{"name":"Mittens","categoryId":7,"status":"available"}'
`;
}
