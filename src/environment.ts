import { existsSync } from 'node:fs';

/** The environment, and what a `.env` file in the working folder adds to it. */
export function readEnvironment(): NodeJS.ProcessEnv {
  if (existsSync('.env')) process.loadEnvFile();
  return process.env;
}
