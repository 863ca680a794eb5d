import { createHistogram } from 'node:perf_hooks';
import type { BenchDatabase, DatabaseServer } from './database.ts';
import { type Exchange, type LoadResult, load } from './load.ts';
import { cpuTime } from './processes.ts';
import type { RunningTarget } from './servers.ts';

const NANOSECONDS_PER_MS = 1e6;

/** What one server did under one load, over all rounds. */
export interface Measurement {
  readonly target: string;
  readonly workload: string;
  readonly connections: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly errors: number;
  /** Microseconds of CPU a request; null where they cannot be told. */
  readonly serverCpu: number | null;
  readonly databaseCpu: number | null;
}

export interface Case {
  readonly target: RunningTarget;
  readonly workload: string;
  readonly connections: number;
  readonly next: () => Exchange;
}

/** Collects the rounds of a case. */
export class Meter {
  readonly #case: Case;
  readonly #latency = createHistogram();
  #requests = 0;
  #errors = 0;
  #seconds = 0;
  #serverCpu: number | undefined = 0;
  #databaseCpu: number | undefined = 0;

  constructor(measured: Case) {
    this.#case = measured;
  }

  /**
   * One round, after a short warm-up.
   *
   * @throws where an answer was wrong, or an animal was acknowledged and is not there
   */
  async round(server: DatabaseServer, database: BenchDatabase, milliseconds: number): Promise<void> {
    const { target, connections, next } = this.#case;
    const loadFor = (duration: number) =>
      load({ port: target.port, connections, milliseconds: duration, next });
    await this.#verified(database, () => loadFor(milliseconds / 4));

    const cpuBefore = { server: cpuTime(target.pid), database: cpuOf(server.pid) };
    const result = await this.#verified(database, () => loadFor(milliseconds));
    this.#serverCpu = plus(this.#serverCpu, minus(cpuTime(target.pid), cpuBefore.server));
    this.#databaseCpu = plus(this.#databaseCpu, minus(cpuOf(server.pid), cpuBefore.database));
    this.#latency.add(result.latency);
    this.#requests += result.requests;
    this.#errors += result.errors;
    this.#seconds += result.seconds;
  }

  get measurement(): Measurement {
    const { target, workload, connections } = this.#case;
    const perRequest = (cpu: number | undefined) => (cpu === undefined ? null : cpu / this.#requests);
    return {
      target: target.id,
      workload,
      connections,
      requestsPerSecond: this.#requests / this.#seconds,
      p50Ms: this.#latency.percentile(50) / NANOSECONDS_PER_MS,
      p99Ms: this.#latency.percentile(99) / NANOSECONDS_PER_MS,
      errors: this.#errors,
      serverCpu: perRequest(this.#serverCpu),
      databaseCpu: perRequest(this.#databaseCpu),
    };
  }

  async #verified({ db }: BenchDatabase, act: () => Promise<LoadResult>): Promise<LoadResult> {
    const { target, workload } = this.#case;
    const newest = db.selectFrom('pets').select((eb) => eb.fn.max<bigint>('id').as('id'));
    const { id } = await newest.executeTakeFirstOrThrow();
    const result = await act();
    if (result.firstError !== undefined) {
      throw new Error(
        `${target.title}, ${workload}: ${result.errors} wrong answers, such as ${result.firstError}`,
      );
    }
    const stored = await db
      .selectFrom('pets')
      .select((eb) => eb.fn.countAll<bigint>().as('count'))
      .where('id', '>', id)
      .executeTakeFirstOrThrow();
    if (stored.count !== BigInt(result.added)) {
      throw new Error(
        `${target.title}, ${workload}: ${result.added} animals acknowledged, ${stored.count} stored`,
      );
    }
    return result;
  }
}

function cpuOf(pid: number | undefined): number | undefined {
  return pid === undefined ? undefined : cpuTime(pid);
}

function plus(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b;
}

function minus(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a - b;
}
