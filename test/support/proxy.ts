import { once } from 'node:events';
import net from 'node:net';
import { listenOnFreePort } from './socket.ts';

/** A statement that a client sent to be run. */
export interface SentStatement {
  text: string;
  /** The name that it was prepared by; empty where it has none. */
  name: string;
  /** Which connection it was sent on, counted from 0. */
  connection: number;
  /** Whether PostgreSQL was to parse it anew, since it was not prepared on that connection before. */
  isParsed: boolean;
}

/** A TCP proxy in front of the database, to be away, and to come back, at will. It keeps what statements pass it. */
export class DatabaseProxy {
  /** A connection string for the same database, through the proxy. */
  readonly url: string;
  /** The connection string of the database itself. */
  readonly target: string;
  /** Every statement that was sent, in order. */
  readonly sent: SentStatement[] = [];
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  readonly #port: number;
  #connections = 0;
  #fatal: RegExp | undefined;

  private constructor(target: URL, server: net.Server, port: number) {
    this.#port = port;
    this.#server = server;
    this.target = target.href;
    const url = new URL(target);
    url.host = `127.0.0.1:${port}`;
    this.url = url.href;
    server.on('connection', (client) => {
      const upstream = net.connect(Number(target.port) || 5432, target.hostname);
      for (const socket of [client, upstream]) {
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.once('close', () => {
          this.#sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      client.on(
        'data',
        statementReader(this.#connections++, (statement) => {
          this.sent.push(statement);
          if (!this.#fatal?.test(statement.text)) return;
          this.#fatal = undefined;
          setImmediate(() => client.destroy());
        }),
      );
      client.pipe(upstream).pipe(client);
    });
  }

  static async start(databaseUrl: string): Promise<DatabaseProxy> {
    const { server, port } = await listenOnFreePort();
    return new DatabaseProxy(new URL(databaseUrl), server, port);
  }

  /** Cuts all connections, and refuses new ones. */
  async goAway(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Cuts the connection on which the next statement that matches is sent, as soon as it was passed on. */
  cutAtNext(text: RegExp): void {
    this.#fatal = text;
  }

  /** Passes nothing on any more on the connections that there are; new ones work. */
  fallSilent(): void {
    for (const socket of this.#sockets) socket.unpipe();
  }

  async comeBack(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
  }
}

/**
 * Reads the statements of what a client sends (PostgreSQL: Frontend/Backend Protocol). After the start-up message each
 * one is a letter, the length of the rest, and the rest.
 */
function statementReader(connection: number, onStatement: (statement: SentStatement) => void) {
  const texts = new Map<string, string>();
  const parsedAnew = new Set<string>();
  let unread = Buffer.alloc(0);
  let hasStarted = false;

  function read(type: string, body: Buffer): void {
    const [first = '', second = ''] = body.toString().split('\0', 2);
    if (type === 'P') {
      texts.set(first, second);
      parsedAnew.add(first);
    } else if (type === 'B') {
      const name = second; // after the name of the portal
      onStatement({ text: texts.get(name) ?? '', name, connection, isParsed: parsedAnew.delete(name) });
    } else if (type === 'Q') {
      onStatement({ text: first, name: '', connection, isParsed: true });
    }
  }

  return (bytes: Buffer) => {
    unread = Buffer.concat([unread, bytes]);
    for (;;) {
      const start = hasStarted ? 1 : 0;
      if (unread.length < start + 4) return;
      const end = start + unread.readUInt32BE(start);
      if (unread.length < end) return;
      if (hasStarted) read(String.fromCharCode(unread[0] ?? 0), unread.subarray(start + 4, end));
      hasStarted = true;
      unread = unread.subarray(end);
    }
  };
}
