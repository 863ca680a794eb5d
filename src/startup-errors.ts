import { CommandError } from './command-error.ts';
import { ConfigError } from './config.ts';
import { codeOf, isUnavailable } from './db/errors.ts';
import { SchemaMismatch } from './db/migrate.ts';
import { ListenError } from './server.ts';

/** SQLSTATEs of a refusal that other settings would mend: credentials, database name, rights, a foreign schema. */
const REFUSED_BY_DATABASE = /^(28|3D|42)/;

/** Of a key all but its hint, of a URL who logs in: an operator may have typed them in the wrong place. */
const SECRETS = /(?<=ast_(?:live|test)_\w{4})\w+|(?<=:\/\/)\S+(?=@)/g;

/** What keeps the service or a command from doing its work, in one line without secrets. */
export function describeStartupError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = (error.message || codeOf(error)).replaceAll(/\s+/g, ' ').replaceAll(SECRETS, '…');
  if (error instanceof ConfigError || error instanceof CommandError || error instanceof SchemaMismatch) {
    return message;
  }
  if (error instanceof ListenError) return `cannot listen (${message}): check HOST and ${error.portSetting}`;
  const isRefused = REFUSED_BY_DATABASE.test(codeOf(error)) || message.includes('does not support SSL');
  if (isRefused) return `the database of DATABASE_URL refuses: ${message}`;
  if (isUnavailable(error)) return `the database of DATABASE_URL cannot be reached: ${message}`;
  return `unexpected error: ${message}`;
}
