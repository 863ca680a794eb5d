import { setTimeout as sleep } from 'node:timers/promises';
import { type Logger, pino } from 'pino';
import type { Config } from './config.ts';

const BUFFER_BYTES = 16_000;
const FLUSH_INTERVAL_MS = 500;
/** What may wait for a reader of stdout that stands still; lines on top of it are dropped. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
/** For stdout to take what is left when the process ends. */
const LAST_LINES_MS = 1000;

/** Where errors of PostgreSQL quote the row, or the parameters, of a statement. */
const QUOTES_OF_DATA = { paths: ['err.detail', 'err.where'], remove: true };

export interface Log {
  readonly logger: Logger;
  /**
   * Ends the process once the lines that are left have been written. Where stdout does not take them it is killed: a
   * write that is stuck would hold up an orderly exit for ever.
   */
  endProcess(exitCode: number): Promise<void>;
}

/**
 * Writes lines of JSON to stdout, many at a time and without waiting for them: a line is out after half a second at the
 * latest. Where stdout fails, as on a full disk, lines are lost and the service goes on.
 */
export function createLog({ logLevel }: Pick<Config, 'logLevel'>): Log {
  const destination = pino.destination({
    dest: 1,
    sync: false,
    minLength: BUFFER_BYTES,
    maxLength: MAX_WAITING_BYTES,
    periodicFlush: FLUSH_INTERVAL_MS,
  });
  destination.on('error', () => {});
  const logger = pino({ level: logLevel, base: null, redact: QUOTES_OF_DATA }, destination);

  const endProcess = async (exitCode: number) => {
    const flushed = new Promise<boolean>((resolve) => destination.flush(() => resolve(true)));
    const isStuck = !(await Promise.race([flushed, sleep(LAST_LINES_MS, false)]));
    if (isStuck) process.kill(process.pid, 'SIGKILL');
    destination.destroy(); // else pino would try once more, and for as long as it takes
    process.exit(exitCode);
  };
  return { logger, endProcess };
}
