import { watch } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type EmbeddedPostgres, startPostgres } from './postgres/embedded.ts';
import { ServerProcess } from './server-process.ts';

/**
 * `npm run dev`: keeps an embedded PostgreSQL and the server running, and starts the server anew when a source file
 * changes. All of it ends together, also when npm is killed.
 */

const DATA = fileURLToPath(new URL('../../.data', import.meta.url));
const WATCHED = ['..', '../../migrations'].map((folder) => fileURLToPath(new URL(folder, import.meta.url)));
const SETTLE_MS = 100;
const PARENT_POLL_MS = 1000;

let stopping = false;
const server = new ServerProcess(() => stop(1)); // loads its modules while PostgreSQL starts
let postgres: Promise<EmbeddedPostgres> = startPostgres(DATA);

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop(0));
stopWithParent();
restartOnChange();
try {
  await keepPostgresRunning();
} catch (error) {
  console.error(`animal-store: ${error instanceof Error ? error.message : error}`);
  await stop(1);
}

/** Starts PostgreSQL again whenever it ends: it was killed, or another process whose server we shared left. */
async function keepPostgresRunning(): Promise<void> {
  for (;;) {
    const { url, folder, gone } = await postgres;
    if (folder !== DATA) console.log(`PostgreSQL cannot enter this folder: its data is in ${folder}`);
    await server.serve(url('postgres'));
    await gone;
    if (stopping) return;
    postgres = startPostgres(DATA);
  }
}

function restartOnChange(): void {
  let settling: NodeJS.Timeout | undefined;
  for (const folder of WATCHED) {
    watch(folder, { recursive: true }, () => {
      clearTimeout(settling);
      settling = setTimeout(() => server.restart(), SETTLE_MS);
    });
  }
}

/** npm passes signals on, but not SIGKILL: then its children get another parent. */
function stopWithParent(): void {
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && stop(0), PARENT_POLL_MS).unref();
}

async function stop(exitCode: number): Promise<void> {
  if (stopping) return;
  stopping = true;
  await server.stop();
  const started = await postgres.catch(() => undefined); // that it failed to start was said already
  await started?.stop();
  process.exit(exitCode);
}
