/** Milliseconds that the database has. */
export interface DatabaseLimits {
  /** For getting a connection. */
  readonly connect: number;
  /** After which PostgreSQL cancels a statement, so that it is known to have had no effect; 0 for never. */
  readonly statement: number;
  /** After which a connection that says nothing is given up; 0 for never. As a rule PostgreSQL speaks first. */
  readonly silence: number;
}

/** How the time that a request has is shared out. */
export interface TimeLimits extends DatabaseLimits {
  /** Milliseconds after which nothing more is begun for the request: what begins before ends in time. */
  readonly start: number;
}

/**
 * The start of a request's last statement, a connection for it and its silence take nine tenths of the deadline together,
 * which leaves room for a quick first attempt, and for the answer.
 */
export function requestLimits(requestDeadlineMs: number): TimeLimits {
  const part = (share: number) => Math.round(requestDeadlineMs * share);
  return { start: part(0.2), connect: part(0.25), statement: part(0.3), silence: part(0.45) };
}

/** For commands of operators. */
export const COMMAND_LIMITS: DatabaseLimits = { connect: 10_000, statement: 30_000, silence: 35_000 };

/** For migrations: an index on a large table takes its time. */
export const MIGRATION_LIMITS: DatabaseLimits = { connect: 10_000, statement: 0, silence: 0 };
