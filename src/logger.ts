import { type Logger, pino } from 'pino';
import type { Config } from './config.ts';

const BUFFER_BYTES = 16_000;
const FLUSH_INTERVAL_MS = 500;
/** What may wait for a reader of stdout that stands still; lines on top of it are dropped. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;

/** Where errors of PostgreSQL quote the row, or the parameters, of a statement. */
const QUOTES_OF_DATA = { paths: ['err.detail', 'err.where'], remove: true };

/**
 * Writes lines of JSON to stdout, many at a time and without waiting for them: a line is out after half a second at the
 * latest, and what is left when the process exits is written then. Only what kills the process outright loses lines.
 */
export function createLogger({ logLevel }: Pick<Config, 'logLevel'>): Logger {
  const destination = pino.destination({
    dest: 1,
    sync: false,
    minLength: BUFFER_BYTES,
    maxLength: MAX_WAITING_BYTES,
    periodicFlush: FLUSH_INTERVAL_MS,
  });
  return pino({ level: logLevel, base: null, redact: QUOTES_OF_DATA }, destination);
}
