import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type pg from 'pg';
import { ConnectError, isReadOnly, isUselessConnection, toDatabaseError } from './errors.ts';

/** Texts of statements that get a name. The service has about a dozen; the bound is for what nobody foresaw. */
const MAX_NAMED_STATEMENTS = 200;

/** Milliseconds in which another new connection would lead to the same server that only reads. */
const NEW_MS = 1000;

/** Milliseconds for the connections to be closed in good order. */
const FAREWELL_MS = 1000;

const namesByText = new Map<string, string>();

/** A client of pg's pool. */
interface PoolClient {
  query<R>(statement: {
    text: string;
    values: unknown[];
    name: string | undefined;
  }): Promise<PostgresQueryResult<R>>;
  release(destroy?: boolean): void;
}

/**
 * pg's pool, as Kysely uses it, without its connections of the past: once one broke, fell silent in the middle of a
 * statement, led to a server that only reads or lost what was prepared on it, those opened before it are not used again
 * either. They most likely lead to the same server, and would fail one after another, each after a time-out.
 */
export class ConnectionPool implements PostgresPool {
  readonly options: PostgresPool['options'];
  readonly #pool: pg.Pool;
  readonly #prepares: boolean;
  /** By connection: when it was opened, on the clock of `performance.now()`. */
  readonly #openedAt = new WeakMap<PoolClient, number>();
  #lastFailure = Number.NEGATIVE_INFINITY;

  constructor(pool: pg.Pool, { prepareStatements }: { prepareStatements: boolean }) {
    this.#pool = pool;
    this.#prepares = prepareStatements;
    this.options = pool.options;
    pool.on('connect', (client) => this.#openedAt.set(client, performance.now()));
  }

  /** @throws ConnectError where no connection is to be had in time */
  async connect(): Promise<PostgresPoolClient> {
    for (;;) {
      const client = await this.#pool.connect().catch((error: unknown) => {
        throw new ConnectError(error);
      });
      if (!this.#isOfThePast(client)) return this.#wrap(client);
      client.release(true);
    }
  }

  /** Says farewell to the database, which may stand still, and not answer. */
  async end(): Promise<void> {
    await Promise.race([this.#pool.end(), sleep(FAREWELL_MS, undefined, { ref: false })]);
  }

  #isOfThePast(client: PoolClient): boolean {
    return (this.#openedAt.get(client) ?? 0) <= this.#lastFailure;
  }

  #wrap(client: PoolClient): PostgresPoolClient {
    return new PoolConnection(client, {
      prepareStatements: this.#prepares,
      isOfThePast: () => this.#isOfThePast(client),
      onFailure: (error) => this.#noteFailure(client, error),
    });
  }

  #noteFailure(client: PoolClient, error: unknown): void {
    if (!isUselessConnection(error)) return;
    const now = performance.now();
    const isNew = now - (this.#openedAt.get(client) ?? 0) < NEW_MS;
    if (!(isReadOnly(error) && isNew)) this.#lastFailure = now;
  }
}

interface PoolConnectionOptions {
  prepareStatements: boolean;
  isOfThePast(): boolean;
  onFailure(error: unknown): void;
}

/** A connection of the pool. It prepares statements by name, so that PostgreSQL parses each text once a connection. */
class PoolConnection implements PostgresPoolClient {
  readonly #client: PoolClient;
  readonly #options: PoolConnectionOptions;

  constructor(client: PoolClient, options: PoolConnectionOptions) {
    this.#client = client;
    this.#options = options;
  }

  query<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  query<R>(
    statement: string | PostgresCursor<R>,
    parameters: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<R>> | PostgresCursor<R> {
    if (typeof statement !== 'string') throw new TypeError('cursors are not in use');
    return this.#run<R>(statement, parameters);
  }

  release(destroy = false): void {
    this.#client.release(destroy || this.#options.isOfThePast());
  }

  async #run<R>(text: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>> {
    // One without parameters may be a script of several statements, which cannot be prepared.
    const isNamed = this.#options.prepareStatements && parameters.length > 0;
    const name = isNamed ? nameOf(text) : undefined;
    try {
      return await this.#client.query<R>({ text, values: [...parameters], name });
    } catch (cause) {
      const error = toDatabaseError(cause);
      this.#options.onFailure(error);
      throw error;
    }
  }
}

/** A name that is the same in every process, so that those behind one pooler never mean different texts by it. */
function nameOf(text: string): string | undefined {
  let name = namesByText.get(text);
  if (name === undefined && namesByText.size < MAX_NAMED_STATEMENTS) {
    name = hash('sha256', text).slice(0, 32);
    namesByText.set(text, name);
  }
  return name;
}
