/** Errors that mean: there was no connection, so that nothing was sent. */
const NOT_CONNECTED = {
  codes: new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN']),
  messages: /^(timeout exceeded when trying to connect|Connection terminated due to connection timeout)/,
};

/** Errors that mean: the connection broke, or fell silent, after a statement may have been sent. */
const CONNECTION_BROKE = {
  codes: new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT']),
  messages:
    /^(Connection terminated|Query read timeout|Client has encountered a connection error|Client was closed)/,
  sqlStates: /^(08|57P0[12])/, // connection exception; shut down, crashed
};

/** SQLSTATEs of a server that is in trouble, and did not do what the statement asks (PostgreSQL, Appendix A). */
const SERVER_IN_TROUBLE = [
  /^53/, // insufficient resources: connections, memory, disk
  /^57014$/, // the statement took too long, and was cancelled
  /^57P0[35]$/, // starting up; session ended for being idle
  /^25006$/, // read-only: a standby, or a primary that was demoted
];

/** SQLSTATEs of what the data of a statement can cause: data exception; violation of a constraint. */
const DATA_ERROR = /^2[23]/;

/**
 * SQLSTATEs of a connection that does not have a prepared statement any more, or not that one: a pooler gave it another
 * server, or somebody ran DEALLOCATE. Nothing was done, and it will be so again on this connection.
 */
const PREPARED_STATEMENT_LOST = /^(26000|42P05)$/;
const FEATURE_NOT_SUPPORTED = '0A000';

/** A call was not sent to the database: too many others wait, or it waited for too long. */
export class NotSent extends Error {}

/** The connection broke while a write was under way: it may have been stored, or not. */
export class OutcomeUnknown extends Error {
  constructor(cause: unknown) {
    super('the connection broke while a write was under way', { cause });
  }
}

/** Whether an error says that the database cannot be used at the moment, rather than that a statement is wrong. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return (
    error instanceof NotSent ||
    isPreparedStatementLost(error) ||
    NOT_CONNECTED.codes.has(code) ||
    NOT_CONNECTED.messages.test(error.message) ||
    SERVER_IN_TROUBLE.some((sqlState) => sqlState.test(code)) ||
    isBrokenConnection(error)
  );
}

/** Whether what was prepared on a connection cannot be run any more: the connection is of no use then. */
export function isPreparedStatementLost(error: unknown): boolean {
  const code = codeOf(error);
  const isPlanOutdated = code === FEATURE_NOT_SUPPORTED && String(error).includes('cached plan'); // by a migration
  return PREPARED_STATEMENT_LOST.test(code) || isPlanOutdated;
}

/** Whether a statement failed by the data that it was given, and had no effect. */
export function isDataError(error: unknown): boolean {
  return DATA_ERROR.test(codeOf(error));
}

/**
 * The result of a statement that writes.
 *
 * @throws OutcomeUnknown where it cannot be told whether the statement took effect
 */
export async function knowOutcome<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    if (isBrokenConnection(error)) throw new OutcomeUnknown(error);
    throw error;
  }
}

/** Whether the connection broke, or fell silent: nothing more can be learnt from it. */
export function isBrokenConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return (
    !NOT_CONNECTED.messages.test(error.message) &&
    (CONNECTION_BROKE.codes.has(code) ||
      CONNECTION_BROKE.sqlStates.test(code) ||
      CONNECTION_BROKE.messages.test(error.message))
  );
}

/** The code of an error of Node or of PostgreSQL; empty where it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
