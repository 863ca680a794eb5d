import { isBrokenConnection, isPreparedStatementLost, OutcomeUnknown } from './errors.ts';

/** Milliseconds in which a failure leaves time for a second attempt. */
const QUICK_FAILURE_MS = 100;

/**
 * The result of a statement that only reads. Where its connection broke at once, as after a restart of the database,
 * it is read once more, on a new one.
 */
export async function attemptRead<T>(read: () => Promise<T>): Promise<T> {
  const begun = performance.now();
  try {
    return await read();
  } catch (error) {
    const isRepeatable = isBrokenConnection(error) || isPreparedStatementLost(error);
    if (isRepeatable && performance.now() - begun < QUICK_FAILURE_MS) return read();
    throw error;
  }
}

/**
 * The result of a statement that writes. It is sent again only where PostgreSQL said that it did not run it.
 *
 * @throws OutcomeUnknown where it cannot be told whether the statement took effect
 */
export async function attemptWrite<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write().catch((error: unknown) => {
      if (isPreparedStatementLost(error)) return write();
      throw error;
    });
  } catch (error) {
    if (isBrokenConnection(error)) throw new OutcomeUnknown(error);
    throw error;
  }
}
