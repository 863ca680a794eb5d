import { pino } from 'pino';
import { CommandError } from './command-error.ts';
import { commands } from './cli/commands.ts';
import { loadConfig } from './config.ts';
import { openDatabase } from './db/database.ts';
import { verifySchema } from './db/migrate.ts';
import { COMMAND_LIMITS, MIGRATION_LIMITS } from './db/time-limits.ts';
import { readEnvironment } from './environment.ts';
import { describeStartupError } from './startup-errors.ts';

const USAGE = `Usage:
  npm run migrate                     bring the schema of the database up to date
  npm run accounts -- create NAME     create an account, and print its ID
  npm run keys -- create --account NAME [--name NAME] [--expires-in 30d]
                                      create a key, and the account where there is none of that name;
                                      prints the key, this once
  npm run keys -- list [--json]       list all keys
  npm run keys -- revoke ID           revoke a key: it is refused from the next request on
  npm run keys -- rotate ID --overlap 1h
                                      replace a key by a new one and print that, this once; the old one
                                      stays good for the overlap
DATABASE_URL names the database. A duration is a whole number and s, m, h or d.`;

try {
  await run(process.argv.slice(2));
} catch (error) {
  console.error(`animal-store: ${describeStartupError(error)}`);
  process.exitCode = 1;
}

async function run(args: string[]): Promise<void> {
  if (args.includes('--help')) {
    console.log(USAGE);
    return;
  }
  const [name, command] =
    Object.entries(commands).find(([each]) => `${args.join(' ')} `.startsWith(`${each} `)) ?? [];
  if (name === undefined || command === undefined) {
    console.error(USAGE);
    throw new CommandError(`there is no command "${args.slice(0, 2).join(' ')}"`);
  }
  const act = command(args.slice(name.split(' ').length));

  const config = loadConfig(readEnvironment());
  const limits = name === 'migrate' ? MIGRATION_LIMITS : COMMAND_LIMITS;
  const db = openDatabase(config, pino({ level: config.logLevel }, process.stderr), limits);
  try {
    if (name !== 'migrate') await verifySchema(db);
    await act({ db, config });
  } finally {
    await db.destroy();
  }
}
