import { once } from 'node:events';
import net from 'node:net';
import { listenOnFreePort } from '../../support/socket.ts';

interface Connection {
  client: net.Socket;
  upstream: net.Socket;
}

/** The network between the service and its database: to lead to another server, and to lose what is sent. */
export class Network {
  readonly #server: net.Server;
  readonly #port: number;
  readonly #connections = new Set<Connection>();
  #target: URL;

  private constructor(target: URL, server: net.Server, port: number) {
    this.#target = target;
    this.#server = server;
    this.#port = port;
    server.on('connection', (client) => this.#connect(client));
  }

  static async start(databaseUrl: string): Promise<Network> {
    const { server, port } = await listenOnFreePort();
    return new Network(new URL(databaseUrl), server, port);
  }

  /** A connection string for the database, through this network. */
  get url(): string {
    const url = new URL(this.#target);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }

  /** Has new connections lead to another server; those that there are go on. */
  switchTo(databaseUrl: string): void {
    this.#target = new URL(databaseUrl);
  }

  /** Loses all that is sent on the connections that there are, their ends too; new ones work. */
  loseConnections(): void {
    for (const { client, upstream } of this.#connections) {
      for (const socket of [client, upstream]) socket.unpipe().removeAllListeners('close');
    }
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const { client, upstream } of this.#connections) {
      client.destroy();
      upstream.destroy();
    }
    await closed;
  }

  #connect(client: net.Socket): void {
    const connection = { client, upstream: net.connect(Number(this.#target.port), this.#target.hostname) };
    const { upstream } = connection;
    this.#connections.add(connection);
    for (const socket of [client, upstream]) {
      socket.on('error', () => {});
      socket.once('close', () => {
        client.destroy();
        upstream.destroy();
        this.#connections.delete(connection);
      });
    }
    client.pipe(upstream).pipe(client);
  }
}
