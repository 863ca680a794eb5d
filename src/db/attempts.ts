import { ConnectionBroken, isPreparedStatementLost, OutcomeUnknown } from './errors.ts';

/** Milliseconds in which a failure leaves time for a second attempt. */
const QUICK_FAILURE_MS = 100;

/**
 * The result of a statement that only reads. Where its connection broke at once, as after a restart of the database,
 * it is read once more, on a new one.
 */
export function attemptRead<T>(read: () => Promise<T>): Promise<T> {
  return attemptTwice(read, (error) => error instanceof ConnectionBroken || isPreparedStatementLost(error));
}

/**
 * The result of a statement that writes. It is sent again only where PostgreSQL said that it did not run it.
 *
 * @throws OutcomeUnknown where it cannot be told whether the statement took effect
 */
export async function attemptWrite<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await attemptTwice(write, isPreparedStatementLost);
  } catch (error) {
    throw error instanceof ConnectionBroken ? new OutcomeUnknown(error) : error;
  }
}

async function attemptTwice<T>(act: () => Promise<T>, isRepeatable: (error: unknown) => boolean): Promise<T> {
  const begun = performance.now();
  try {
    return await act();
  } catch (error) {
    const isQuick = performance.now() - begun < QUICK_FAILURE_MS;
    if (isQuick && isRepeatable(error)) return act();
    throw error;
  }
}
