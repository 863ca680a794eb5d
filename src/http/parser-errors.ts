import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { ApiError } from './errors.ts';
import { latestResponseOn, whenItsTurnComes } from './pipelining.ts';
import { requestIdOf } from './request-id.ts';
import { SECURITY_HEADERS } from './security-headers.ts';

/** What Node's HTTP parser and its clocks refuse with another status than 400, by the code of their error. */
const REFUSALS: Readonly<Record<string, () => ApiError>> = {
  ERR_HTTP_REQUEST_TIMEOUT: () => new ApiError('request_timeout', 'The request did not arrive in time.'),
  HPE_HEADER_OVERFLOW: () => new ApiError('headers_too_large', 'The request line and headers are too large.'),
};

/** An error of Node's `clientError` event. */
interface ParserError {
  code?: string;
  /** The Buffer that the parser was reading, and how far it came in it. */
  rawPacket?: unknown;
  bytesParsed?: number;
}

/** Milliseconds for the client to read the refusal: closing at once could reset it away. */
const LINGER_MS = 1000;

/** Answers CONNECT, which never becomes a request of Fastify's, after what is owed to earlier requests. */
export function refuseConnect(app: FastifyInstance): void {
  app.server.on('connect', ({ headers }: IncomingMessage, socket: Socket) => {
    socket.on('error', () => {}); // Node has taken its own listener off
    const refusal = new ApiError('not_implemented', 'This server is not a proxy: CONNECT is not supported.');
    afterOwedAnswers(socket, () => refuse(socket, refusal, requestIdOf(headers)));
  });
}

/**
 * Fastify's `clientErrorHandler`: answers, in the one error shape, what never becomes a request. Answers that are owed
 * to earlier requests of the connection go out first.
 */
export function handleParserError(error: ParserError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const refusal =
    REFUSALS[error.code ?? '']?.() ?? new ApiError('invalid_request', 'The request is not well-formed HTTP.');
  const refuseNext = () => {
    refuse(socket, refusal, requestIdOf({}), isOfHead(error));
  };

  const latest = latestResponseOn(socket);
  if (latest === undefined || latest.req.complete) {
    afterOwedAnswers(socket, refuseNext);
    return;
  }
  whenItsTurnComes(latest, () => {
    const { headers, method } = latest.req;
    if (latest.headersSent)
      socket.destroySoon(); // answered already, while its body was still arriving
    else refuse(socket, refusal, requestIdOf(headers), method === 'HEAD');
  });
}

/** Whether the request that failed is a HEAD: by what stands after the last head that was read, as far as can be told. */
function isOfHead({ rawPacket, bytesParsed }: ParserError): boolean {
  if (!Buffer.isBuffer(rawPacket)) return false;
  const read = rawPacket.toString('latin1', 0, bytesParsed);
  const end = read.lastIndexOf('\r\n\r\n');
  return read.startsWith('HEAD ', end === -1 ? 0 : end + '\r\n\r\n'.length);
}

function afterOwedAnswers(socket: Socket, act: () => void): void {
  const latest = latestResponseOn(socket);
  if (latest === undefined || latest.writableFinished) act();
  else latest.once('finish', act);
}

/** A HEAD error has no body (RFC 9110, 9.3.2). */
function refuse(socket: Socket, { body, headers }: ApiError, requestId: string, isHead = false): void {
  const payload = JSON.stringify(body);
  const lines = {
    connection: 'close',
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(payload),
    'x-request-id': requestId,
    ...SECURITY_HEADERS,
    ...headers,
  };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  const statusLine = `HTTP/1.1 ${body.status} ${STATUS_CODES[body.status]}\r\n`;
  socket.resume();
  setTimeout(() => socket.destroy(), LINGER_MS);
  socket.end(`${statusLine}${head.join('')}\r\n${isHead ? '' : payload}`);
}
