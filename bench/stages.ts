import type { BenchDatabase, DatabaseServer } from './database.ts';
import { type Measurement, Meter } from './measure.ts';
import { peakMemory } from './processes.ts';
import { showProgress } from './progress.ts';
import { COMPARED_CONNECTIONS, type Growth, type Results } from './report.ts';
import { FLOOR, type RunningTarget, SERVICE, startTarget, type Target } from './servers.ts';
import { type Workload, workloads } from './workloads.ts';

const COMMIT_DELAY_MS = 5;

/** How much is measured. */
export interface Plan {
  readonly rows: number;
  readonly connections: readonly number[];
  readonly rounds: number;
  /** Of each case in each round. */
  readonly milliseconds: number;
  /** Of each server under each load, before the first round: so long do compilers of JavaScript learn. */
  readonly warmUpMilliseconds: number;
  readonly growthRows: readonly number[];
}

type Loads = Readonly<Record<string, Workload>>;

/** The stages of a run, one after the other on one PostgreSQL server. */
export class Stages {
  /** What was wrong, a line for each case that had errors. */
  readonly problems: string[] = [];
  readonly #server: DatabaseServer;
  readonly #targets: readonly Target[];
  readonly #plan: Plan;
  readonly #interruption: AbortSignal;
  /** By target, in bytes. */
  readonly #peakMemory = new Map<string, number>();

  /** @param interruption ends the run with an error, after which nothing is left behind */
  constructor(options: {
    server: DatabaseServer;
    targets: readonly Target[];
    plan: Plan;
    interruption: AbortSignal;
  }) {
    this.#server = options.server;
    this.#targets = options.targets;
    this.#plan = options.plan;
    this.#interruption = options.interruption;
  }

  async run(): Promise<Pick<Results, 'measurements' | 'slowCommit' | 'growth' | 'memory'>> {
    const comparison = await this.#inDatabase(this.#plan.rows, async (database) => ({
      measurements: await this.#compare(database),
      slowCommit: await this.#compareSlowCommits(database),
    }));
    const growth = await this.#measureGrowth();
    const memory = this.#targets.map(({ id }) => ({
      target: id,
      peakBytes: this.#peakMemory.get(id) ?? null,
    }));
    return { ...comparison, growth, memory };
  }

  /** All servers under all loads, taking turns. */
  #compare(database: BenchDatabase): Promise<readonly Measurement[]> {
    const { lastPage: _, ...loads } = workloads(database.key, database.rows);
    return this.#whileRunning(this.#targets, database, async (running) => {
      await this.#warmUp(running, loads, database);
      return this.#takeTurns('comparing', meters(running, loads, this.#plan.connections), database);
    });
  }

  /** Creates where each commit takes milliseconds, as it does on a disk that is far away. */
  async #compareSlowCommits(database: BenchDatabase): Promise<Results['slowCommit']> {
    if (!(await database.slowCommits(COMMIT_DELAY_MS))) {
      console.log('Slow commits are skipped: the user of DATABASE_URL may not set commit_delay');
      return null;
    }
    const { create } = workloads(database.key, database.rows);
    const withDatabase = this.#targets.filter(({ id }) => id !== FLOOR);
    const measurements = await this.#whileRunning(withDatabase, database, async (running) => {
      await this.#warmUp(running, { create }, database);
      return this.#takeTurns('slow commits', meters(running, { create }, this.#plan.connections), database);
    });
    return { commitDelayMs: COMMIT_DELAY_MS, measurements };
  }

  /** The service alone, on tables of different sizes. Creates come last, since they make the table larger. */
  async #measureGrowth(): Promise<Growth[]> {
    const growth: Growth[] = [];
    const service = this.#targets.filter(({ id }) => id === SERVICE);
    for (const rows of this.#plan.growthRows) {
      const measurements = await this.#inDatabase(rows, (database) =>
        this.#whileRunning(service, database, async (running) => {
          const { frontPage, lastPage, get, create } = workloads(database.key, rows);
          const measured: Measurement[] = [];
          for (const loads of [{ frontPage, lastPage, get }, { create }]) {
            await this.#warmUp(running, loads, database);
            const turns = meters(running, loads, [COMPARED_CONNECTIONS]);
            const title = `${Object.keys(loads).join(', ')} at ${rows.toLocaleString('en')} animals`;
            measured.push(...(await this.#takeTurns(title, turns, database)));
          }
          return measured;
        }),
      );
      growth.push({ rows, measurements });
    }
    return growth;
  }

  /** Makes a database, and deletes it however the act ends. */
  async #inDatabase<T>(rows: number, act: (database: BenchDatabase) => Promise<T>): Promise<T> {
    this.#interruption.throwIfAborted();
    const database = await this.#server.createDatabase(rows);
    try {
      return await act(database);
    } finally {
      await database.drop();
    }
  }

  /** Starts servers, and stops them however the act ends. */
  async #whileRunning<T>(
    wanted: readonly Target[],
    database: BenchDatabase,
    act: (running: readonly RunningTarget[]) => Promise<T>,
  ): Promise<T> {
    const running: RunningTarget[] = [];
    try {
      for (const target of wanted) running.push(await startTarget(target, database));
      return await act(running);
    } finally {
      for (const { id, pid } of running) {
        const peak = Math.max(peakMemory(pid) ?? 0, this.#peakMemory.get(id) ?? 0);
        if (peak > 0) this.#peakMemory.set(id, peak);
      }
      await Promise.all(running.map((target) => target.stop()));
    }
  }

  async #warmUp(running: readonly RunningTarget[], loads: Loads, database: BenchDatabase): Promise<void> {
    for (const meter of meters(running, loads, [COMPARED_CONNECTIONS])) {
      this.#interruption.throwIfAborted();
      await meter.round(this.#server, database, this.#plan.warmUpMilliseconds);
    }
  }

  /** A B C, C B A, A B C: whoever comes after another in one round comes before it in the next. */
  async #takeTurns(title: string, turns: readonly Meter[], database: BenchDatabase): Promise<Measurement[]> {
    const { rounds, milliseconds } = this.#plan;
    let done = 0;
    for (let round = 0; round < rounds; round++) {
      for (const meter of round % 2 === 0 ? turns : turns.toReversed()) {
        this.#interruption.throwIfAborted();
        await meter.round(this.#server, database, milliseconds);
        showProgress(title, ++done / (rounds * turns.length));
      }
    }
    this.problems.push(...turns.flatMap(({ problem }) => problem ?? []));
    return turns.map(({ measurement }) => measurement);
  }
}

function meters(running: readonly RunningTarget[], loads: Loads, connections: readonly number[]): Meter[] {
  return connections.flatMap((count) =>
    Object.entries(loads).flatMap(([workload, next]) =>
      running
        .filter(({ id }) => id !== FLOOR || workload === 'frontPage')
        .map((target) => new Meter({ target, workload, connections: count, next })),
    ),
  );
}
