import type { Measurement } from './measure.ts';
import { FLOOR, SERVICE } from './servers.ts';

export interface Growth {
  readonly rows: number;
  readonly measurements: readonly Measurement[];
}

/** All that a run of the benchmark found, as `results.json` holds it. */
export interface Results {
  readonly measuredAt: string;
  readonly isQuick: boolean;
  readonly rows: number;
  readonly machine: { readonly processor: string; readonly cores: number };
  readonly versions: { readonly node: string; readonly postgres: string };
  readonly targets: readonly { readonly id: string; readonly title: string }[];
  readonly measurements: readonly Measurement[];
  readonly memory: readonly { readonly target: string; readonly peakBytes: number | null }[];
  readonly slowCommit: {
    readonly commitDelayMs: number;
    readonly measurements: readonly Measurement[];
  } | null;
  readonly growth: readonly Growth[];
}

export const WORKLOAD_TITLES: Readonly<Record<string, string>> = {
  frontPage: 'front page',
  randomPage: 'page of random status, limit and cursor',
  get: 'get by random id',
  create: 'create',
  mix: '80 % reads, 20 % creates',
  lastPage: 'last page',
};

/** The number of connections at which stacks are compared. */
export const COMPARED_CONNECTIONS = 64;

const BYTES_PER_MIB = 1024 ** 2;

export function markdownReport(results: Results): string {
  const { machine, versions } = results;
  return `# Benchmark

${results.isQuick ? 'A quick run, with little warm-up, for a first impression,' : 'A run'} of \`npm run bench\` at ${results.measuredAt} on ${machine.cores} cores of ${machine.processor}, with Node ${versions.node} and
PostgreSQL ${versions.postgres}, on a table that begins with ${results.rows.toLocaleString('en')} animals. The animal store runs as \`npm start\` starts it, with
its log, its metrics and its request ids; the others write no log, and run on the defaults of Node or Go.

CPU is microseconds a request, of the server and of PostgreSQL; total is the sum of both. Load generator, servers and
PostgreSQL share the machine, so that CPU a request says more than requests a second. Errors are wrong answers, and
animals that were acknowledged but not stored.

## CPU a request of the animal store, as a part of that of others, at ${COMPARED_CONNECTIONS} connections

${ratioTable(results, COMPARED_CONNECTIONS, cpuRatio)}

Against the constant answer, which has no database, it is the CPU of the servers alone.

## Median latency of the animal store, as a part of that of others, at 1 connection

${ratioTable(results, 1, (own, other) => other.p50Ms / own.p50Ms)}

## All measurements

${measurementTable(results, results.measurements)}

## Peak memory (RSS)

${table(
  ['', 'MiB'],
  results.memory.map(({ target, peakBytes }) => [
    titleOf(results, target),
    peakBytes === null ? '–' : (peakBytes / BYTES_PER_MIB).toFixed(0),
  ]),
)}

## Creates where a commit takes ${results.slowCommit?.commitDelayMs ?? '–'} ms

${results.slowCommit === null ? 'Not measured.' : measurementTable(results, results.slowCommit.measurements)}

## Growth: the animal store on tables of different sizes

${table(
  ['animals', ...COLUMNS.map(({ title }) => title)],
  results.growth.flatMap(({ rows, measurements }) =>
    measurements.map((each) => [
      rows.toLocaleString('en'),
      ...COLUMNS.map(({ text }) => text(each, results)),
    ]),
  ),
)}
`;
}

/** Microseconds of CPU a request, of server and database together. */
export function totalCpu({ serverCpu, databaseCpu }: Measurement): number | null {
  return serverCpu === null || databaseCpu === null ? null : serverCpu + databaseCpu;
}

export function titleOf({ targets }: Results, id: string): string {
  return targets.find((target) => target.id === id)?.title ?? id;
}

/** How many times the animal store's the other's CPU is; undefined where it cannot be told. */
function cpuRatio(own: Measurement, other: Measurement): number | undefined {
  const [ownCpu, otherCpu] =
    other.target === FLOOR ? [own.serverCpu, other.serverCpu] : [totalCpu(own), totalCpu(other)];
  return ownCpu === null || otherCpu === null ? undefined : otherCpu / ownCpu;
}

function ratioTable(
  results: Results,
  comparedConnections: number,
  ratio: (own: Measurement, other: Measurement) => number | undefined,
): string {
  const compared = results.measurements.filter(({ connections }) => connections === comparedConnections);
  const find = (target: string, workload: string) =>
    compared.find((each) => each.target === target && each.workload === workload);
  const workloads = [...new Set(compared.map(({ workload }) => workload))];
  const rows = results.targets
    .filter(({ id }) => id !== SERVICE)
    .map(({ id, title }) => [
      title,
      ...workloads.map((workload) => {
        const [own, other] = [find(SERVICE, workload), find(id, workload)];
        if (own === undefined || other === undefined) return '';
        return ratioText(ratio(own, other));
      }),
    ]);
  return table(['against', ...workloads.map((id) => WORKLOAD_TITLES[id] ?? id)], rows);
}

function ratioText(ratio: number | undefined): string {
  if (ratio === undefined) return '–';
  return ratio > 1 ? `1/${ratio.toFixed(1)}` : `${(1 / ratio).toFixed(2)} ×`;
}

interface Column {
  readonly title: string;
  readonly text: (measurement: Measurement, results: Results) => string;
}

const COLUMNS: readonly Column[] = [
  { title: 'workload', text: ({ workload }) => WORKLOAD_TITLES[workload] ?? workload },
  { title: 'connections', text: ({ connections }) => `${connections}` },
  { title: 'server', text: ({ target }, results) => titleOf(results, target) },
  {
    title: 'requests/s',
    text: ({ requestsPerSecond }) => Math.round(requestsPerSecond).toLocaleString('en'),
  },
  { title: 'p50 ms', text: ({ p50Ms }) => p50Ms.toFixed(2) },
  { title: 'p99 ms', text: ({ p99Ms }) => p99Ms.toFixed(2) },
  { title: 'errors', text: ({ errors }) => `${errors}` },
  { title: 'CPU server', text: ({ serverCpu }) => microseconds(serverCpu) },
  { title: 'CPU PostgreSQL', text: ({ databaseCpu }) => microseconds(databaseCpu) },
  { title: 'CPU total', text: (measurement) => microseconds(totalCpu(measurement)) },
];

function measurementTable(results: Results, measurements: readonly Measurement[]): string {
  return table(
    COLUMNS.map(({ title }) => title),
    measurements.map((each) => COLUMNS.map(({ text }) => text(each, results))),
  );
}

function microseconds(value: number | null): string {
  return value === null ? '–' : value.toFixed(1);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), `|${' --- |'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}
