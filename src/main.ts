import { pino } from 'pino';
import { loadConfig } from './config.ts';
import { readEnvironment } from './environment.ts';
import { startServer } from './server.ts';
import { describeStartupError } from './startup-errors.ts';

try {
  const config = loadConfig(readEnvironment());
  const logger = pino({ level: config.logLevel, base: null });
  const server = await startServer(config, logger);

  const stop = async (signal: NodeJS.Signals) => {
    logger.info({ signal }, 'stopping');
    await server.stop();
    logger.info('stopped');
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, stop);
} catch (error) {
  process.stderr.write(`animal-store: ${describeStartupError(error)}\n`);
  process.exitCode = 1;
}
