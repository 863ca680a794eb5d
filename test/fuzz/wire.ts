import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';

/** An answer, as it came. */
export interface Answer {
  readonly status: number;
  /** The statuses of the interim answers (1xx) before it. */
  readonly interim: readonly number[];
  /** By their names in lower case; those that came more than once are joined by commas. */
  readonly headers: ReadonlyMap<string, string>;
  /** Undefined where only the head came, as for HEAD. */
  readonly body: string | undefined;
}

/** What came is no answer, or none came. */
export class WireError extends Error {}

const HEAD_END = '\r\n\r\n';
const ANSWER_TIMEOUT_MS = 15_000;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A connection on plain TCP, on which any bytes can be sent. The client's end may close before the server's. */
export class Connection {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #hasEnded = false;
  #failure: WireError | undefined;
  #wake = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (bytes: Buffer) => {
      this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes]);
      this.#wake();
    });
    for (const event of ['end', 'close']) {
      socket.on(event, () => {
        this.#hasEnded = true;
        this.#wake();
      });
    }
    socket.on('error', () => {}); // a reset ends the connection as a close does
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => {
      this.#failure = new WireError(`nothing came for ${ANSWER_TIMEOUT_MS / 1000} seconds`);
      socket.destroy();
    });
  }

  static async open(port: number): Promise<Connection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    await once(socket, 'connect');
    return new Connection(socket);
  }

  /** Everything that came and was not read. */
  get unread(): Buffer {
    return this.#received;
  }

  get isOpen(): boolean {
    return !this.#hasEnded && this.#socket.writable;
  }

  /** Sends bytes piece by piece, each in a turn of its own. */
  async send(pieces: readonly Buffer[]): Promise<void> {
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) await turn();
      this.#socket.write(piece);
    }
  }

  /** Says that no more will be sent. */
  end(): void {
    this.#socket.end();
  }

  /** Breaks the connection off with a TCP reset. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /**
   * The next answer; undefined once the server has closed and there is none.
   *
   * @param isHead whether it is one to HEAD, which has no body
   * @throws WireError
   */
  async next(isHead: boolean): Promise<Answer | undefined> {
    for (;;) {
      const read = readAnswer(this.#received, 0, () => isHead);
      if (read !== undefined) {
        this.#received = this.#received.subarray(read.end);
        return read.answer;
      }
      if (this.#hasEnded) {
        if (this.#received.length > 0) throw new WireError('an answer was broken off');
        return undefined;
      }
      await this.#change();
    }
  }

  /**
   * All answers until the server closes its end, to requests of which nothing is known.
   *
   * @throws WireError
   */
  async rest(): Promise<Answer[]> {
    while (!this.#hasEnded) await this.#change();
    const answers: Answer[] = [];
    let at = 0;
    while (at < this.#received.length) {
      const read = readAnswer(this.#received, at, isWithoutBody);
      if (read === undefined) throw new WireError('an answer was broken off');
      answers.push(read.answer);
      at = read.end;
    }
    return answers;
  }

  /** Waits until something came, or the connection ended. */
  async #change(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** An answer with a Content-Length, and where it ends; undefined as long as it is not whole. @throws WireError */
function readAnswer(
  bytes: Buffer,
  start: number,
  isWithoutBody: (bytes: Buffer, bodyStart: number) => boolean,
): { answer: Answer; end: number } | undefined {
  const interim: number[] = [];
  let at = start;
  for (;;) {
    const headEnd = bytes.indexOf(HEAD_END, at);
    if (headEnd === -1) return undefined;
    const [statusLine = '', ...lines] = bytes.toString('latin1', at, headEnd).split('\r\n');
    const [, digits] = /^HTTP\/1\.1 ([1-5]\d\d) /.exec(statusLine) ?? [];
    if (digits === undefined) throw new WireError(`this is no answer: ${JSON.stringify(statusLine)}`);
    const status = Number(digits);
    at = headEnd + HEAD_END.length;
    if (status < 200) {
      interim.push(status);
      continue;
    }
    const headers = readHeaders(lines);
    const length = headers.get('content-length') ?? '';
    if (!/^\d+$/.test(length)) throw new WireError(`an answer without a Content-Length: ${statusLine}`);
    if (isWithoutBody(bytes, at)) return { answer: { status, interim, headers, body: undefined }, end: at };
    const end = at + Number(length);
    if (bytes.length < end) return undefined;
    return { answer: { status, interim, headers, body: decode(bytes.subarray(at, end)) }, end };
  }
}

function readHeaders(lines: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = '', value = ''] = /^([\w-]+): ?(.*)$/.exec(line) ?? [];
    if (name === '') throw new WireError(`this is no header: ${JSON.stringify(line)}`);
    const before = headers.get(name.toLowerCase());
    headers.set(name.toLowerCase(), before === undefined ? value : `${before}, ${value}`);
  }
  return headers;
}

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new WireError('the body of an answer is not UTF-8');
  }
}

/** Whether nothing, or the next answer, is where a body would begin. */
function isWithoutBody(bytes: Buffer, bodyStart: number): boolean {
  return bytes.length === bodyStart || bytes.toString('latin1', bodyStart, bodyStart + 5) === 'HTTP/';
}
