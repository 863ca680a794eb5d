import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A TCP server on a port of its own, which accepts connections and says nothing. */
export async function listenOnFreePort(): Promise<{ server: net.Server; port: number }> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address !== 'object') throw new Error('a TCP server listens on a port');
  return { server, port: address.port };
}

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A connection on which exactly these bytes are sent, and on which all that comes back is kept. */
export class RawConnection {
  readonly #socket: net.Socket;
  received = '';

  constructor(port: number, { allowHalfOpen = false } = {}) {
    this.#socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen });
    this.#socket.on('data', (bytes) => {
      this.received += bytes.toString('latin1');
    });
    this.#socket.on('error', () => {}); // a reset ends the connection as a close does
  }

  send(bytes: string | Uint8Array): void {
    this.#socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /** Sends bytes, and that no more will come. */
  sendAndClose(bytes: string): void {
    this.#socket.end(Buffer.from(bytes, 'latin1'));
  }

  /** Resolves when the server has closed the connection. */
  async closed(): Promise<void> {
    if (!this.#socket.closed) await once(this.#socket, 'close');
  }

  /** Resolves once this many answers have come, or the connection is closed. */
  async answers(count: number): Promise<RawAnswer[]> {
    while (parseAnswers(this.received).length < count && !this.#socket.closed) await sleep(5);
    return parseAnswers(this.received);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Breaks the connection off with a TCP reset. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }
}

/** Sends bytes on a new connection and gives the first final answer. */
export async function exchange(port: number, bytes: string | Uint8Array): Promise<RawAnswer> {
  const connection = new RawConnection(port);
  connection.send(bytes);
  const [answer] = await connection.answers(1);
  connection.destroy();
  if (answer === undefined) throw new Error(`no answer, only: ${JSON.stringify(connection.received)}`);
  return answer;
}

/** Complete answers with a Content-Length; interim ones (1xx) are passed over. */
function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = text;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) return answers;
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const status = Number(statusLine.split(' ')[1]);
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    );
    const length = Number(headers['content-length'] ?? 0);
    const body = rest.slice(end + 4, end + 4 + length);
    if (body.length < length) return answers;
    if (status >= 200) answers.push({ status, headers, body });
    rest = rest.slice(end + 4 + length);
  }
}
