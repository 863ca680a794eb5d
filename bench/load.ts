import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

/** One request, as it goes over the wire, and what its answer must be. */
export interface Exchange {
  readonly request: string;
  /** Whether it adds an animal. */
  readonly adds: boolean;
  /** @returns what is wrong with the answer, or undefined */
  check(status: number, body: string): string | undefined;
}

export interface LoadResult {
  readonly requests: number;
  /** The requests that were answered well and added an animal. */
  readonly added: number;
  /** The answers that were wrong, and what was wrong with the first one. */
  readonly errors: number;
  readonly firstError: string | undefined;
  readonly seconds: number;
  /** Latencies in nanoseconds. */
  readonly latency: RecordableHistogram;
}

const HEAD_END = '\r\n\r\n';
const CHUNKED_END = '\r\n0\r\n\r\n';
const ANSWER_TIMEOUT_MS = 30_000;

/**
 * Sends requests over a number of connections to a port of 127.0.0.1, on each the next one as soon as the last one is
 * answered. Written on plain sockets: on a machine that it shares with the server, an HTTP client of the usual kind
 * would cost several times what it measures.
 */
export async function load(options: {
  port: number;
  connections: number;
  milliseconds: number;
  next: () => Exchange;
}): Promise<LoadResult> {
  const { port, connections, milliseconds, next } = options;
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  const latency = createHistogram();
  let added = 0;
  let errors = 0;
  let firstError: string | undefined;

  const start = performance.now();
  const end = start + milliseconds;
  await Promise.all(
    sockets.map((socket) =>
      converse(socket, {
        next: () => (performance.now() < end ? next() : undefined),
        onAnswer: (nanoseconds, { adds }, problem) => {
          latency.record(nanoseconds);
          if (problem === undefined) {
            if (adds) added++;
          } else {
            errors++;
            firstError ??= problem;
          }
        },
      }),
    ),
  );
  const seconds = (performance.now() - start) / 1000;
  return { requests: latency.count, added, errors, firstError, seconds, latency };
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}

interface Conversation {
  /** The next request; undefined ends the conversation. */
  next(): Exchange | undefined;
  onAnswer(nanoseconds: number, exchange: Exchange, problem: string | undefined): void;
}

function converse(socket: Socket, { next, onAnswer }: Conversation): Promise<void> {
  return new Promise((resolve, reject) => {
    let exchange: Exchange | undefined;
    let sentAt = 0;
    let received = '';

    const sendNext = () => {
      exchange = next();
      if (exchange === undefined) {
        socket.end();
        return resolve();
      }
      sentAt = performance.now();
      socket.write(exchange.request);
    };
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      received += text;
      const answer = readAnswer(received);
      if (answer === undefined || exchange === undefined) return;
      received = '';
      const nanoseconds = Math.max(1, Math.round((performance.now() - sentAt) * 1e6));
      onAnswer(nanoseconds, exchange, exchange.check(answer.status, answer.body));
      sendNext();
    });
    socket.on('error', reject);
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy(new Error('a request was not answered')));
    socket.on('close', () => reject(new Error('the server closed a connection')));
    sendNext();
  });
}

/** The answer that a text holds, once it is whole. Nothing follows it, since requests are not pipelined. */
function readAnswer(text: string): { status: number; body: string } | undefined {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd === -1) return undefined;
  const head = text.slice(0, headEnd);
  const status = Number(head.slice(9, 12));
  const body = text.slice(headEnd + HEAD_END.length);

  const [, length] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? [];
  if (length !== undefined) return hasBytes(body, Number(length)) ? { status, body } : undefined;
  return body.endsWith(CHUNKED_END) ? { status, body: joinChunks(body) } : undefined;
}

function hasBytes(body: string, length: number): boolean {
  return body.length === length || Buffer.byteLength(body) >= length;
}

/** Chunks are measured in bytes; what is sent here is ASCII. */
function joinChunks(text: string): string {
  let body = '';
  let at = 0;
  for (;;) {
    const sizeEnd = text.indexOf('\r\n', at);
    const size = Number.parseInt(text.slice(at, sizeEnd), 16);
    if (!(size > 0)) return body;
    body += text.slice(sizeEnd + 2, sizeEnd + 2 + size);
    at = sizeEnd + 2 + size + 2;
  }
}
