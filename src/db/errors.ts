import pg from 'pg';

/** SQLSTATEs after which a session is over, or what became of its statement is not known (PostgreSQL, Appendix A). */
const SESSION_ENDED = /^(08|25P0[34]|40003|57P0)/; // connection exception; time-outs; completion unknown; shut down

/** SQLSTATEs of a server that is in trouble, and did not do what the statement asks (PostgreSQL, Appendix A). */
const SERVER_IN_TROUBLE = [
  /^40/, // rolled back: deadlock, serialization failure
  /^53/, // insufficient resources: connections, memory, disk
  /^55P03$/, // a lock was not to be had
  /^57014$/, // the statement took too long, and was cancelled
  /^58/, // error of the system below PostgreSQL, such as of a disk
];

/** Read-only: a standby, or a primary that was demoted. A new connection may lead to the new primary. */
const READ_ONLY = '25006';

/** SQLSTATEs of what the data of a statement can cause: data exception; violation of a constraint. */
const DATA_ERROR = /^2[23]/;

/**
 * SQLSTATEs of a connection that does not have a prepared statement any more, or not that one: a pooler gave it another
 * server, or somebody ran DEALLOCATE. Nothing was done, and it will be so again on this connection.
 */
const PREPARED_STATEMENT_LOST = /^(26000|42P05)$/;

/** A statement was not sent to the database: too many others wait, it waited for too long, or there is no connection. */
export class NotSent extends Error {}

/** No connection to the database could be had in time. `code` is that of Node or of PostgreSQL, or empty. */
export class ConnectError extends NotSent {
  readonly code: string;

  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
    this.code = codeOf(cause);
  }
}

/**
 * The connection broke, or fell silent, while a statement was under way: PostgreSQL did not say what became of it.
 * `code` is that of Node or of PostgreSQL, or empty.
 */
export class ConnectionBroken extends Error {
  readonly code: string;

  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
    this.code = codeOf(cause);
  }
}

/** What a client of pg throws, with those errors told apart that are of the connection, or end it. */
export function toDatabaseError(error: unknown): unknown {
  const isOfPostgres = error instanceof pg.DatabaseError && !SESSION_ENDED.test(codeOf(error));
  return isOfPostgres ? error : new ConnectionBroken(error);
}

/** The connection broke while a write was under way: it may have been stored, or not. */
export class OutcomeUnknown extends Error {
  constructor(cause: unknown) {
    super('the connection broke while a write was under way', { cause });
  }
}

/** Whether an error says that the database cannot be used at the moment, rather than that a statement is wrong. */
export function isUnavailable(error: unknown): boolean {
  return (
    error instanceof NotSent ||
    isUselessConnection(error) ||
    SERVER_IN_TROUBLE.some((sqlState) => sqlState.test(codeOf(error)))
  );
}

/** Whether nothing more is to be had from the connection of an error, though a new one may well serve. */
export function isUselessConnection(error: unknown): boolean {
  return error instanceof ConnectionBroken || isPreparedStatementLost(error) || isReadOnly(error);
}

export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === READ_ONLY;
}

/** Whether what was prepared on a connection cannot be run any more: the connection is of no use then. */
export function isPreparedStatementLost(error: unknown): boolean {
  const isPlanOutdated = error instanceof pg.DatabaseError && error.routine === 'RevalidateCachedQuery'; // by a migration
  return PREPARED_STATEMENT_LOST.test(codeOf(error)) || isPlanOutdated;
}

/** Whether a statement failed by the data that it was given, and had no effect. */
export function isDataError(error: unknown): boolean {
  return DATA_ERROR.test(codeOf(error));
}

/** The code of an error of Node or of PostgreSQL; empty where it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** Some errors of Node have only a code. */
function messageOf(error: unknown): string {
  return (error instanceof Error && error.message) || codeOf(error);
}
