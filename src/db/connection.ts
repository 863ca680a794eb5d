import { hash } from 'node:crypto';
import type { PostgresCursor, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import { isBrokenConnection, isPreparedStatementLost } from './errors.ts';

/** Texts of statements that get a name. The service has about a dozen; the bound is for what nobody foresaw. */
const MAX_NAMED_STATEMENTS = 200;

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
 * A connection of the pool, as Kysely uses it. It prepares statements by name, so that PostgreSQL parses each text once
 * a connection. It does not go back to the pool once it broke, fell silent in the middle of a statement, or lost what
 * was prepared on it.
 */
export class PoolConnection implements PostgresPoolClient {
  readonly #client: PoolClient;
  readonly #prepares: boolean;
  #isBroken = false;

  constructor(client: PoolClient, { prepareStatements }: { prepareStatements: boolean }) {
    this.#client = client;
    this.#prepares = prepareStatements;
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

  async #run<R>(text: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>> {
    // One without parameters may be a script of several statements, which cannot be prepared.
    const name = this.#prepares && parameters.length > 0 ? nameOf(text) : undefined;
    try {
      return await this.#client.query<R>({ text, values: [...parameters], name });
    } catch (error) {
      this.#isBroken ||= isBrokenConnection(error) || isPreparedStatementLost(error);
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
