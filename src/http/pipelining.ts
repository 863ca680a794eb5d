import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** Pipelined requests that may wait in all, of some kB each. One read of a socket, of 64 KiB, can bring hundreds. */
const MAX_WAITING = 10_000;

export type Response = ServerResponse & { req: IncomingMessage };

/** The response that was begun last on each connection. */
const latestResponse = new WeakMap<Socket, Response>();

/** By response: the one before it on the same connection, as long as that has not left. */
const precedingResponse = new WeakMap<ServerResponse, Response>();

export function latestResponseOn(socket: Socket): Response | undefined {
  return latestResponse.get(socket);
}

/** Acts when the answers before a response have left its connection, or the connection is closed. */
export function whenItsTurnComes(response: ServerResponse, act: () => void): void {
  const preceding = precedingResponse.get(response);
  if (preceding === undefined || preceding.closed) act();
  else preceding.once('close', act);
}

/**
 * Handles pipelined requests one after another, each when the answer before it has left, as RFC 9112, 9.3.2 asks for
 * where they are not safe. A client that sends many without waiting thus sees its own writes, and one that does not read
 * its answers costs the memory of one. While requests wait, nothing more is read from their connection.
 */
export function answerInTurn(app: FastifyInstance): void {
  for (const event of ['request', 'checkContinue', 'checkExpectation']) {
    app.server.prependListener(event, (request: IncomingMessage, response: Response) => {
      const preceding = latestResponse.get(request.socket);
      if (preceding?.writableFinished === false) precedingResponse.set(response, preceding);
      latestResponse.set(request.socket, response);
    });
  }

  const queues = new Queues();
  app.server.on('connection', (socket: Socket) => {
    // Node goes on reading after each message that its parser has seen.
    socket.on('resume', () => {
      if (queues.has(socket)) socket.pause();
    });
    // Of a connection that closes, only the response that was being sent says so.
    socket.once('close', () => queues.drop(socket));
  });

  app.addHook('onRequest', ({ raw: { socket }, log }, reply, next) => {
    const preceding = precedingResponse.get(reply.raw);
    if (preceding === undefined || preceding.closed) return next();
    const longest = queues.enter(socket);
    if (longest !== undefined) {
      log.warn('a connection is cut off: too many pipelined requests wait, and most of them are its own');
      longest.destroy();
    }
    socket.pause();
    whenItsTurnComes(reply.raw, () => {
      precedingResponse.delete(reply.raw);
      if (!socket.writable) {
        reply.hijack(); // nobody is there to answer to, or the answer before this one was the last
        return;
      }
      queues.leave(socket);
      if (!queues.has(socket)) socket.resume();
      next();
    });
  });
}

/** How many requests wait on each connection. */
class Queues {
  readonly #lengths = new Map<Socket, number>();
  #total = 0;

  has(socket: Socket): boolean {
    return this.#lengths.has(socket);
  }

  /** @returns where too many wait in all, the connection with the most of them, which is to be cut off */
  enter(socket: Socket): Socket | undefined {
    if (socket.destroyed) return undefined;
    this.#add(socket, 1);
    if (this.#total <= MAX_WAITING) return undefined;
    const [longest] = [...this.#lengths].reduce((a, b) => (a[1] < b[1] ? b : a));
    this.drop(longest);
    return longest;
  }

  leave(socket: Socket): void {
    this.#add(socket, -1);
  }

  drop(socket: Socket): void {
    this.#add(socket, -(this.#lengths.get(socket) ?? 0));
  }

  #add(socket: Socket, change: number): void {
    const length = (this.#lengths.get(socket) ?? 0) + change;
    this.#total += change;
    if (length === 0) this.#lengths.delete(socket);
    else this.#lengths.set(socket, length);
  }
}
