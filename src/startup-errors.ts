import { CommandError } from './accounts/commands.ts';
import { ConfigError } from './config.ts';
import { isUnavailable } from './db/errors.ts';
import { SchemaMismatch } from './db/migrate.ts';

/** SQLSTATE classes that say that the settings, not the statement, are wrong: credentials, database name, rights. */
const REFUSED_BY_DATABASE = /^(28|3D|42501)/;

/** What keeps the service or a command from doing its work, in one line without secrets. */
export function describeStartupError(error: unknown): string {
  if (error instanceof ConfigError || error instanceof CommandError || error instanceof SchemaMismatch) {
    return error.message;
  }
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : '';
  const message = (error.message || code).replaceAll(/\s+/g, ' ');
  if (code === 'EADDRINUSE') return `the address is taken (${message}): choose another HOST or PORT`;
  if (code === 'EADDRNOTAVAIL' || code === 'EACCES') return `cannot listen (${message}): check HOST and PORT`;
  if (isUnavailable(error)) return `the database of DATABASE_URL cannot be reached: ${message}`;
  if (REFUSED_BY_DATABASE.test(code)) return `the database of DATABASE_URL refuses: ${message}`;
  return `unexpected error: ${message}`;
}
