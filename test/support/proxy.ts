import { once } from 'node:events';
import net from 'node:net';
import { listenOnFreePort } from './socket.ts';

/** A TCP proxy in front of the database, to be away, and to come back, at will. */
export class DatabaseProxy {
  /** A connection string for the same database, through the proxy. */
  readonly url: string;
  /** The connection string of the database itself. */
  readonly target: string;
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  readonly #port: number;

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

  /** Passes nothing on any more on the connections that there are; new ones work. */
  fallSilent(): void {
    for (const socket of this.#sockets) socket.unpipe();
  }

  async comeBack(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
  }
}
