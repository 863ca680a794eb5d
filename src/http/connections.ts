import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import { unavailable } from './errors.ts';

export type Response = ServerResponse & { req: IncomingMessage };

/** The response that was begun last on each connection. */
const latestResponse = new WeakMap<Socket, Response>();

/** By response: the one that was begun before it on the same connection. */
const precedingResponse = new WeakMap<ServerResponse, Response>();

export function latestResponseOn(socket: Socket): Response | undefined {
  return latestResponse.get(socket);
}

/**
 * Handles the requests of one connection one after another, each when the answer before it has left, as RFC 9112, 9.3.2
 * asks for where they are not safe. A client that sends many without waiting thus sees its own writes, and one that does
 * not read its answers costs the memory of one. While a request waits, nothing more is read from its connection.
 */
export function answerInTurn(app: FastifyInstance): void {
  for (const event of ['request', 'checkContinue', 'checkExpectation']) {
    app.server.prependListener(event, (request: IncomingMessage, response: Response) => {
      const preceding = latestResponse.get(request.socket);
      if (preceding !== undefined) precedingResponse.set(response, preceding);
      latestResponse.set(request.socket, response);
    });
  }

  app.addHook('onRequest', ({ raw: { socket } }, reply, next) => {
    const preceding = precedingResponse.get(reply.raw);
    if (preceding === undefined || preceding.writableFinished) return next();
    socket.pause();
    preceding.once('close', () => {
      if (socket.destroyed) {
        reply.hijack(); // nobody is there to answer to
        return;
      }
      socket.resume();
      next();
    });
  });
}

/**
 * Counts the connections.
 *
 * @returns a hook that refuses the requests of those beyond the maximum at once, and lets these connections go
 */
export function limitConnections(app: FastifyInstance, maximum: number): onRequestHookHandler {
  const surplus = new WeakSet<Socket>();
  let count = 0;
  app.server.on('connection', (socket: Socket) => {
    count++;
    if (count > maximum) surplus.add(socket);
    socket.once('close', () => {
      count--;
    });
  });

  return ({ raw: { socket } }, reply, next) => {
    if (!surplus.has(socket)) return next();
    reply.raw.setHeader('connection', 'close');
    next(unavailable('The service has too many connections at the moment; try again.'));
  };
}
