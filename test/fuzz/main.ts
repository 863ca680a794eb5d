import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { readArguments } from '../../src/cli/arguments.ts';
import { CommandError } from '../../src/command-error.ts';
import { loadConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { findFreePort } from '../../src/dev/postgres/postmaster.ts';
import { startTemporaryPostgres } from '../../src/dev/postgres/temporary.ts';
import { killGroup, type Running, start } from '../support/command.ts';
import { type Finding, fuzz, listsPets } from './engine.ts';
import { createTarget, type Target } from './target.ts';

/**
 * `npm run test:fuzz -- [--minutes N] [--seed N]`: sends generated requests to the service, in a process of its own on a
 * PostgreSQL of its own, round after round with a new seed. Ends with 1, and what to see it again with, at the first
 * round that finds something.
 */

const ROUND_REQUESTS = 5000;
const MAX_SEED = 2 ** 31 - 1;
const ERROR_LEVEL = 50;
const START_TIMEOUT_MS = 20_000;
const END_TIMEOUT_MS = 1000;
const POLL_MS = 50;
const PROGRESS_INTERVAL_MS = 10_000;
const MS_PER_MINUTE = 60_000;

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interruption.abort());

try {
  const { minutes, seed } = readOptions(process.argv.slice(2));
  await withService(async (target, service) => {
    const end = AbortSignal.any([interruption.signal, AbortSignal.timeout(minutes * MS_PER_MINUTE)]);
    process.exitCode = (await runRounds(target, service, seed, end)) ? 0 : 1;
  });
} catch (error) {
  const [problem] = (error instanceof Error ? error.message : String(error)).split('\n');
  process.stderr.write(`fuzz: ${problem}\n`);
  process.exitCode = 1;
}

function readOptions(args: string[]): { minutes: number; seed: number } {
  const { values } = readArguments(args, { minutes: { type: 'string' }, seed: { type: 'string' } }, []);
  const minutes = Number(values.minutes ?? '1');
  const seed = Number(values.seed ?? randomInt(MAX_SEED));
  if (!/^\d{1,4}(?:\.\d+)?$/.test(values.minutes ?? '1') || minutes === 0) {
    throw new CommandError('--minutes must be a number above 0, of at most 9999');
  }
  if (!/^\d{1,10}$/.test(values.seed ?? '0') || seed > MAX_SEED) {
    throw new CommandError(`--seed must be a whole number from 0 to ${MAX_SEED}`);
  }
  return { minutes, seed };
}

/** @returns whether nothing was found */
async function runRounds(
  target: Target,
  service: Running,
  firstSeed: number,
  end: AbortSignal,
): Promise<boolean> {
  let requests = 0;
  let nextProgress = 0;
  for (let seed = firstSeed; !end.aborted; seed++) {
    const result = await fuzz(target, { seed, requests: ROUND_REQUESTS, signal: end });
    requests += result.requests;
    if (performance.now() >= nextProgress) {
      process.stdout.write(`${requests} requests so far, seed ${seed}\n`);
      nextProgress = performance.now() + PROGRESS_INTERVAL_MS;
    }
    const problems = [...result.findings.map(describe), ...(await faultsOf(service, target))];
    if (problems.length > 0) {
      process.stdout.write(`${problems.join('\n')}\nAgain: npm run test:fuzz -- --seed ${seed}\n`);
      return false;
    }
  }
  process.stdout.write(`${requests} requests, and nothing was found\n`);
  return true;
}

function describe({ kind, problem, sent, answer }: Finding): string {
  const received =
    answer && JSON.stringify({ ...answer, headers: Object.fromEntries(answer.headers.entries()) });
  return `\n${kind}: ${problem}\nsent, as Latin-1: ${JSON.stringify(sent)}\nanswered: ${received ?? 'nothing'}`;
}

/** What is wrong with the service itself: it does not work any more, or its log tells of faults. */
async function faultsOf(service: Running, target: Target): Promise<string[]> {
  const lines = service.stdout.split('\n').slice(0, -1); // the last one may not be whole
  const faults = lines.filter((line) => JSON.parse(line).level >= ERROR_LEVEL);
  if (!(await listsPets(target).catch(() => false))) {
    await Promise.race([service.ended, sleep(END_TIMEOUT_MS)]);
    const { exitCode, signalCode } = service.process;
    const state = exitCode ?? signalCode ?? 'still running';
    faults.push(`the service does not list the animals any more (${state}): ${service.stderr}`);
  }
  return faults;
}

/** Runs the service as production does, with warnings and errors in its log. */
async function withService(act: (target: Target, service: Running) => Promise<void>): Promise<void> {
  const postgres = await startTemporaryPostgres({ fsync: 'off' });
  try {
    const databaseUrl = postgres.url('postgres');
    const db = openDatabase(loadConfig({ DATABASE_URL: databaseUrl }), pino({ level: 'silent' }));
    try {
      await migrate(db);
      const port = await findFreePort(0);
      const service = start(process.execPath, ['src/main.ts'], {
        env: { DATABASE_URL: databaseUrl, PORT: `${port}`, OPS_PORT: '0', LOG_LEVEL: 'warn' },
      });
      try {
        const target = await createTarget(db, port);
        await untilItServes(service, target);
        await act(target, service);
      } finally {
        await killGroup(service);
      }
    } finally {
      await db.destroy();
    }
  } finally {
    await postgres.stop();
  }
}

async function untilItServes(service: Running, target: Target): Promise<void> {
  for (let waited = 0; waited < START_TIMEOUT_MS; waited += POLL_MS) {
    if (await listsPets(target).catch(() => false)) return;
    if (service.process.exitCode !== null) break;
    await sleep(POLL_MS);
  }
  throw new Error(`the service did not start: ${service.stderr}`);
}
