import type { PostgresCursor, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import { isBrokenConnection } from './errors.ts';

/** A connection of the pool that does not go back there once it broke, or fell silent in the middle of a statement. */
export class PoolConnection implements PostgresPoolClient {
  readonly #client: PostgresPoolClient;
  #isBroken = false;

  constructor(client: PostgresPoolClient) {
    this.#client = client;
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
    this.#client.release(destroy || this.#isBroken);
  }

  async #run<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>> {
    try {
      return await this.#client.query<R>(sql, parameters);
    } catch (error) {
      this.#isBroken ||= isBrokenConnection(error);
      throw error;
    }
  }
}
