import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { comparisonChart, growthChart } from './chart.ts';
import { openDatabaseServer } from './database.ts';
import { markdownReport, type Results } from './report.ts';
import { prepareTargets } from './servers.ts';
import { type Plan, Stages } from './stages.ts';

const RESULTS = new URL('results/', import.meta.url);

/** About twenty minutes. */
const FULL: Plan = {
  rows: 1_000_000,
  connections: [1, 8, 64, 256],
  rounds: 3,
  milliseconds: 1500,
  warmUpMilliseconds: 2000,
  growthRows: [10_000, 1_000_000, 10_000_000],
};

/** A first impression, in less than two minutes. */
const QUICK: Plan = {
  rows: 1_000_000,
  connections: [1, 64],
  rounds: 1,
  milliseconds: 400,
  warmUpMilliseconds: 800,
  growthRows: [10_000, 100_000],
};

const { values: options } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const plan = options.quick ? QUICK : FULL;

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => interruption.abort(new Error(`ended by ${signal}`)));
}
const measuredAt = new Date().toISOString();
const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-bench-'));
try {
  const targets = prepareTargets(folder);
  const server = await openDatabaseServer(process.env.DATABASE_URL);
  try {
    const stages = new Stages({ server, targets, plan, interruption: interruption.signal });
    write({
      measuredAt,
      isQuick: options.quick,
      rows: plan.rows,
      machine: { processor: cpus()[0]?.model.trim() ?? 'unknown', cores: cpus().length },
      versions: { node: process.version, postgres: server.version },
      targets: targets.map(({ id, title }) => ({ id, title })),
      ...(await stages.run()),
    });
    if (stages.problems.length > 0) throw new Error(stages.problems.join('\n'));
  } finally {
    await server.stop();
  }
} catch (error) {
  const reason = interruption.signal.aborted ? interruption.signal.reason : error;
  console.error(`The benchmark failed: ${reason instanceof Error ? reason.message : reason}`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
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
