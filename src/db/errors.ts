/** Errors of the operating system that mean: no connection to the database. */
const CONNECTION_ERRORS = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/** SQLSTATEs that say that the server, not the statement, is in trouble (PostgreSQL, Appendix A). */
const UNAVAILABLE_SQLSTATES = [
  /^08/, // connection exception
  /^53/, // insufficient resources: connections, memory, disk
  /^57P0[1-5]$/, // shut down, crashed, starting up, session ended
  /^25006$/, // read-only: a standby, or a primary that was demoted
];

/** Errors of pg that carry no code. */
const UNAVAILABLE_MESSAGE =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Client was closed)/;

/** Whether an error says that the database cannot be used at the moment, rather than that a statement is wrong. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return (
    CONNECTION_ERRORS.has(code) ||
    UNAVAILABLE_SQLSTATES.some((pattern) => pattern.test(code)) ||
    UNAVAILABLE_MESSAGE.test(error.message)
  );
}
