import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { latestResponseOn } from './pipelining.ts';

const SWEEP_INTERVAL_MS = 50;

export interface DrainOptions {
  /** The connections of clients that are open. */
  open: ReadonlySet<Socket>;
  /** Milliseconds for which connections are still taken, while load balancers notice that the service is not ready. */
  pauseMs: number;
  /** Milliseconds after the pause that every honest request has ended in. */
  deadlineMs: number;
}

/**
 * Has `close()` lose no request: first a pause in which all are answered, each with `Connection: close`; then no more
 * connections are taken, and it ends as soon as the requests under way are answered. Node closes the connections that
 * are idle when that begins; those that become idle later would hold it up until their keep-alive runs out. Its time-out
 * of requests that do not arrive ends there too: clients that never finish are cut off after the deadline.
 *
 * @returns whether the service is on its way to stop
 */
export function drainBeforeClose(
  app: FastifyInstance,
  { open, pauseMs, deadlineMs }: DrainOptions,
): () => boolean {
  spareAnswersOnTheWay(app, open);
  let isDraining = false;
  app.addHook('preClose', async () => {
    isDraining = true;
    askToClose(open);
    if (app.server.listening) await sleep(pauseMs);
    const sweep = setInterval(() => app.server.closeIdleConnections(), SWEEP_INTERVAL_MS);
    const deadline = setTimeout(() => app.server.closeAllConnections(), deadlineMs);
    app.server.once('close', () => {
      clearInterval(sweep);
      clearTimeout(deadline);
    });
  });
  return () => isDraining;
}

/** Fastify has requests that come from now on answered with `Connection: close`; this is for those under way. */
function askToClose(open: ReadonlySet<Socket>): void {
  for (const socket of open) {
    const response = latestResponseOn(socket);
    if (response?.headersSent === false) response.setHeader('connection', 'close');
  }
}

/**
 * Node takes a connection for idle as soon as its answer was handed over, and would cut what has not left yet. So none
 * is closed as idle while an answer is on its way to a client that reads slowly.
 */
function spareAnswersOnTheWay({ server }: FastifyInstance, open: ReadonlySet<Socket>): void {
  const closeIdleConnections = server.closeIdleConnections.bind(server);
  server.closeIdleConnections = () => {
    const isSending = [...open].some(({ writableLength }) => writableLength > 0);
    if (!isSending) closeIdleConnections();
  };
}
