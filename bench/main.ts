import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { comparisonChart, growthChart } from './chart.ts';
import { type BenchDatabase, openDatabaseServer } from './database.ts';
import { type Measurement, Meter } from './measure.ts';
import { peakMemory } from './processes.ts';
import { showProgress } from './progress.ts';
import { COMPARED_CONNECTIONS, type Growth, markdownReport, type Results } from './report.ts';
import { prepareTargets, type RunningTarget, startTarget, type Target } from './servers.ts';
import { type Workload, workloads } from './workloads.ts';

/** How much is measured: all of it in about half an hour, or a first impression in two minutes. */
const PLANS = {
  full: {
    rows: 1_000_000,
    connections: [1, 8, 64, 256],
    rounds: 3,
    milliseconds: 2000,
    warmUpMilliseconds: 3000,
    growthRows: [10_000, 1_000_000, 10_000_000],
  },
  quick: {
    rows: 1_000_000,
    connections: [1, 64],
    rounds: 1,
    milliseconds: 500,
    warmUpMilliseconds: 700,
    growthRows: [10_000, 100_000],
  },
};

const COMMIT_DELAY_MS = 5;
const RESULTS = new URL('results/', import.meta.url);

const { values: options } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const plan = options.quick ? PLANS.quick : PLANS.full;

const startedAt = new Date();
const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true })); // what was started ends then, too
process.once('SIGINT', () => process.exit(130));

const targets = prepareTargets(folder);
const server = await openDatabaseServer(process.env.DATABASE_URL);
process
  .removeAllListeners('SIGINT')
  .once('SIGINT', () => void server.stop().finally(() => process.exit(130)));
try {
  const comparison = await inDatabase(plan.rows, async (database) => ({
    ...(await compare(database)),
    slowCommit: await compareSlowCommits(database),
  }));
  write({
    measuredAt: startedAt.toISOString(),
    isQuick: options.quick,
    rows: plan.rows,
    machine: { processor: cpus()[0]?.model.trim() ?? 'unknown', cores: cpus().length },
    versions: { node: process.version, postgres: server.version },
    targets: targets.map(({ id, title }) => ({ id, title })),
    ...comparison,
    growth: await measureGrowth(),
  });
} finally {
  await server.stop();
}

/** All servers under all loads, taking turns: A B C, A B C. */
function compare(database: BenchDatabase) {
  return whileRunning(targets, database, async (running) => {
    const { lastPage: _, ...loads } = workloads(database.key, database.rows);
    await warmUp(running, loads, database);
    const measurements = await takeTurns('comparing', meters(running, loads, plan.connections), database);
    const memory = running.map(({ id, pid }) => ({ target: id, peakBytes: peakMemory(pid) ?? null }));
    return { measurements, memory };
  });
}

/** Creates where each commit takes milliseconds, as it does on a disk that is far away. */
async function compareSlowCommits(database: BenchDatabase): Promise<Results['slowCommit']> {
  if (!(await database.slowCommits(COMMIT_DELAY_MS))) {
    console.log('Slow commits are skipped: the user of DATABASE_URL may not set commit_delay');
    return null;
  }
  const { create } = workloads(database.key, database.rows);
  const withDatabase = targets.filter(({ isFloor }) => !isFloor);
  const measurements = await whileRunning(withDatabase, database, (running) =>
    takeTurns('slow commits', meters(running, { create }, plan.connections), database),
  );
  return { commitDelayMs: COMMIT_DELAY_MS, measurements };
}

/** This service alone, on tables of different sizes. */
async function measureGrowth(): Promise<Growth[]> {
  const growth: Growth[] = [];
  for (const rows of plan.growthRows) {
    const measurements = await inDatabase(rows, (database) =>
      whileRunning(targets.slice(0, 1), database, async (running) => {
        const { frontPage, lastPage, get, create } = workloads(database.key, rows);
        const loads = { frontPage, lastPage, get, create };
        await warmUp(running, loads, database);
        const title = `${rows.toLocaleString('en')} animals`;
        return takeTurns(title, meters(running, loads, [COMPARED_CONNECTIONS]), database);
      }),
    );
    growth.push({ rows, measurements });
  }
  return growth;
}

/** Makes a database, and deletes it however the act ends. */
async function inDatabase<T>(rows: number, act: (database: BenchDatabase) => Promise<T>): Promise<T> {
  const database = await server.createDatabase(rows);
  try {
    return await act(database);
  } finally {
    await database.drop();
  }
}

/** Starts servers, and stops them however the act ends. */
async function whileRunning<T>(
  wanted: readonly Target[],
  database: BenchDatabase,
  act: (running: readonly RunningTarget[]) => Promise<T>,
): Promise<T> {
  const running: RunningTarget[] = [];
  try {
    for (const target of wanted) running.push(await startTarget(target, database));
    return await act(running);
  } finally {
    await Promise.all(running.map((target) => target.stop()));
  }
}

type Loads = Readonly<Record<string, Workload>>;

/** In the order in which they take turns. */
function meters(running: readonly RunningTarget[], loads: Loads, connections: readonly number[]): Meter[] {
  return connections.flatMap((count) =>
    Object.entries(loads).flatMap(([workload, next]) =>
      running
        .filter(({ isFloor }) => !isFloor || workload === 'frontPage')
        .map((target) => new Meter({ target, workload, connections: count, next })),
    ),
  );
}

async function warmUp(
  running: readonly RunningTarget[],
  loads: Loads,
  database: BenchDatabase,
): Promise<void> {
  for (const meter of meters(running, loads, [COMPARED_CONNECTIONS])) {
    await meter.round(server, database, plan.warmUpMilliseconds);
  }
}

async function takeTurns(
  title: string,
  turns: readonly Meter[],
  database: BenchDatabase,
): Promise<Measurement[]> {
  for (let round = 0; round < plan.rounds; round++) {
    for (const [index, meter] of turns.entries()) {
      await meter.round(server, database, plan.milliseconds);
      showProgress(title, (round * turns.length + index + 1) / (plan.rounds * turns.length));
    }
  }
  return turns.map(({ measurement }) => measurement);
}

function write(results: Results): void {
  mkdirSync(RESULTS, { recursive: true });
  const files = {
    'results.json': `${JSON.stringify(results, null, 2)}\n`,
    'results.md': markdownReport(results),
    'comparison.svg': comparisonChart(results),
    'growth.svg': growthChart(results),
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(new URL(name, RESULTS), text);
  console.log(`\n${files['results.md']}\nWritten to bench/results: ${Object.keys(files).join(', ')}`);
}
