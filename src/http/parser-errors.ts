import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { ApiError } from './errors.ts';

/** What Node's HTTP parser and its clocks refuse, by the code of their error. */
const REFUSALS: Readonly<Record<string, () => ApiError>> = {
  ERR_HTTP_REQUEST_TIMEOUT: () => new ApiError('request_timeout', 'The request did not arrive in time.'),
  HPE_HEADER_OVERFLOW: () => new ApiError('headers_too_large', 'The request line and headers are too large.'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: () => new ApiError('payload_too_large', 'A chunk extension is too large.'),
};

/** The response that was begun last on each connection. */
const latestResponse = new WeakMap<Socket, ServerResponse & { req: IncomingMessage }>();

/** Answers in the one error shape what never becomes a request: what the HTTP parser refuses, and CONNECT. */
export function answerParserErrors(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, next) => {
    latestResponse.set(request.raw.socket, reply.raw);
    next();
  });
  app.server.on('connect', (_request, socket: Socket) => {
    refuse(socket, new ApiError('not_implemented', 'This server is not a proxy: CONNECT is not supported.'));
  });
}

/** Fastify's `clientErrorHandler`. Answers that are owed to earlier requests of the connection go out first. */
export function handleParserError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const refusal =
    REFUSALS[error.code ?? '']?.() ?? new ApiError('invalid_request', 'The request is not well-formed HTTP.');

  const response = latestResponse.get(socket);
  if (response === undefined || (response.req.complete && response.writableFinished)) refuse(socket, refusal);
  else if (response.req.complete) response.once('finish', () => refuse(socket, refusal));
  else if (response.headersSent)
    socket.destroySoon(); // answered already, while its body was still arriving
  else refuse(socket, refusal);
}

function refuse(socket: Socket, { body, headers }: ApiError): void {
  const payload = JSON.stringify(body);
  const lines = {
    connection: 'close',
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(payload),
    'x-request-id': randomUUID(),
    ...headers,
  };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${body.status} ${STATUS_CODES[body.status]}\r\n${head.join('')}\r\n${payload}`);
}
