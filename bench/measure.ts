import { createHistogram } from 'node:perf_hooks';
import type { Database } from '../src/db/database.ts';
import type { BenchDatabase, DatabaseServer } from './database.ts';
import { type Exchange, load } from './load.ts';
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
  /** Wrong answers, and animals acknowledged but not stored. */
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
  #problem: string | undefined;
  #seconds = 0;
  #serverCpu: number | undefined = 0;
  #databaseCpu: number | undefined = 0;

  constructor(measured: Case) {
    this.#case = measured;
  }

  /** One round, after a short warm-up. */
  async round(server: DatabaseServer, { db }: BenchDatabase, milliseconds: number): Promise<void> {
    const { target, connections, next } = this.#case;
    const loadFor = (duration: number) =>
      load({ port: target.port, connections, milliseconds: duration, next });
    await loadFor(milliseconds / 4);

    const newest = await newestPet(db);
    const cpuBefore = { server: cpuTime(target.pid), database: cpuOf(server.pid) };
    const result = await loadFor(milliseconds);
    this.#serverCpu = plus(this.#serverCpu, minus(cpuTime(target.pid), cpuBefore.server));
    this.#databaseCpu = plus(this.#databaseCpu, minus(cpuOf(server.pid), cpuBefore.database));
    this.#latency.add(result.latency);
    this.#requests += result.requests;
    this.#seconds += result.seconds;

    const missing = result.added - (await countAfter(db, newest));
    if (missing !== 0) this.#problem ??= `of ${result.added} animals acknowledged ${missing} are not stored`;
    this.#problem ??= result.firstError;
    this.#errors += result.errors + Math.abs(missing);
  }

  /** What was wrong with the first answer that was; undefined where all were right. */
  get problem(): string | undefined {
    const { target, workload } = this.#case;
    return this.#problem && `${target.title}, ${workload}: ${this.#errors} errors, such as ${this.#problem}`;
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
}

async function newestPet(db: Database): Promise<bigint> {
  const query = db.selectFrom('pets').select((eb) => eb.fn.max<bigint>('id').as('id'));
  return (await query.executeTakeFirstOrThrow()).id;
}

async function countAfter(db: Database, id: bigint): Promise<number> {
  const query = db.selectFrom('pets').select((eb) => eb.fn.countAll<bigint>().as('count'));
  return Number((await query.where('id', '>', id).executeTakeFirstOrThrow()).count);
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
