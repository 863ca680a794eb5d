import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { unavailable } from './errors.ts';

/** How many times the maximum may be open, so that there is room for refusals; Node closes more than that at once. */
const ROOM_FOR_REFUSALS = 2;

/**
 * Lets the connections beyond the maximum go after their first answer. That is a refusal, once the key was found good:
 * health is answered on any number of connections.
 *
 * @param open the connections of clients that are open, the new one among them
 */
export function limitConnections(app: FastifyInstance, open: ReadonlySet<Socket>, maximum: number): void {
  app.server.maxConnections = ROOM_FOR_REFUSALS * maximum;
  const surplus = new WeakSet<Socket>();
  app.server.on('connection', (socket: Socket) => {
    if (open.size > maximum) surplus.add(socket);
  });

  app.addHook('onRequest', ({ raw: { socket } }, reply, next) => {
    if (surplus.has(socket)) reply.raw.setHeader('connection', 'close');
    next();
  });
  app.addHook('preParsing', ({ raw: { socket }, apiKey }, _reply, _payload, next) => {
    if (apiKey === null || !surplus.has(socket)) return next();
    next(unavailable('The service has too many connections at the moment; try again.'));
  });
}
