import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import { unavailable } from './errors.ts';

/**
 * Requests that may wait for answers before theirs, of some kB each. One read of a socket, of 64 KiB, can bring hundreds.
 */
const MAX_WAITING = 10_000;

export type Response = ServerResponse & { req: IncomingMessage };

/** The response that was begun last on each connection. */
const latestResponse = new WeakMap<Socket, Response>();

/** By response: the one before it on the same connection, where that had not left when it was begun. */
const precedingResponse = new WeakMap<ServerResponse, Response>();

export function latestResponseOn(socket: Socket): Response | undefined {
  return latestResponse.get(socket);
}

/**
 * Handles the requests of one connection one after another, each when the answer before it has left, as RFC 9112, 9.3.2
 * asks for where they are not safe. A client that sends many without waiting thus sees its own writes, and one that does
 * not read its answers costs the memory of one. While requests wait, nothing more is read from their connection.
 */
export function answerInTurn(app: FastifyInstance): void {
  for (const event of ['request', 'checkContinue', 'checkExpectation']) {
    app.server.prependListener(event, (request: IncomingMessage, response: Response) => {
      const preceding = latestResponse.get(request.socket);
      if (preceding?.writableFinished === false) precedingResponse.set(response, preceding);
      latestResponse.set(request.socket, response);
    });
  }

  /** How many requests wait for their turn, in all and by connection. */
  let allWaiting = 0;
  const waiting = new WeakMap<Socket, number>();
  const isHeldBack = (socket: Socket) => (waiting.get(socket) ?? 0) > 0;
  const count = (socket: Socket, change: 1 | -1) => {
    allWaiting += change;
    waiting.set(socket, (waiting.get(socket) ?? 0) + change);
  };

  app.server.on('connection', (socket: Socket) => {
    // Node goes on reading after each message that its parser has seen.
    socket.on('resume', () => {
      if (isHeldBack(socket)) socket.pause();
    });
    // Of a connection that closes, only the response that was being sent says so.
    socket.once('close', () => {
      allWaiting -= waiting.get(socket) ?? 0;
      waiting.delete(socket);
    });
  });

  app.addHook('onRequest', ({ raw: { socket }, log }, reply, next) => {
    const preceding = precedingResponse.get(reply.raw);
    if (preceding === undefined) return next();
    precedingResponse.delete(reply.raw);
    if (allWaiting >= MAX_WAITING) {
      if (!socket.destroyed)
        log.warn('a connection is cut off: too many requests wait for answers before theirs');
      socket.destroy();
      reply.hijack();
      return;
    }
    count(socket, 1);
    socket.pause();
    preceding.once('close', () => {
      if (socket.destroyed) {
        reply.hijack(); // nobody is there to answer to
        return;
      }
      count(socket, -1);
      if (!isHeldBack(socket)) socket.resume();
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
