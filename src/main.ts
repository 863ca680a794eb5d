import { loadConfig } from './config.ts';
import { readEnvironment } from './environment.ts';
import { createLog } from './logger.ts';
import { startServer } from './server.ts';
import { describeStartupError } from './startup-errors.ts';

/** Ctrl-C reaches us twice below npm, which passes it on too: only a signal that comes later means "at once". */
const REPEATED_SIGNAL_MS = 1000;

try {
  const config = loadConfig(readEnvironment());
  const { logger, endProcess } = createLog(config);
  const server = await startServer(config, logger);

  let stoppingSince: number | undefined;
  const onSignal = async (signal: NodeJS.Signals) => {
    if (stoppingSince === undefined) {
      stoppingSince = performance.now();
      logger.info({ signal }, 'stopping');
      setTimeout(giveUp, config.shutdownTimeoutMs).unref();
      await server.stop();
      logger.info('stopped');
      await endProcess(0); // connections to a database that stands still would keep the process alive
    } else if (performance.now() - stoppingSince > REPEATED_SIGNAL_MS) {
      await endProcess(1);
    }
  };
  const giveUp = () => {
    logger.error('not stopped in time: requests under way are broken off');
    void endProcess(1);
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal);
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'a fault that nobody caught');
    void endProcess(1);
  });
} catch (error) {
  process.stderr.write(`animal-store: ${describeStartupError(error)}\n`);
  process.exitCode = 1;
}
