/** How the time that a request has is shared out, in milliseconds. */
export interface TimeLimits {
  /** After which nothing more is begun for the request: what begins before ends in time. */
  readonly start: number;
  /** For getting a connection. */
  readonly connect: number;
  /** After which PostgreSQL cancels a statement, so that it is known to have had no effect. */
  readonly statement: number;
  /** After which a connection that says nothing is given up. It is longer, so that as a rule PostgreSQL speaks first. */
  readonly silence: number;
}

/** The start of a request's last statement, a connection for it and its silence take less than the deadline together. */
export function timeLimits(requestDeadlineMs: number): TimeLimits {
  const part = (share: number) => Math.round(requestDeadlineMs * share);
  return { start: part(0.25), connect: part(0.25), statement: part(0.3), silence: part(0.45) };
}
