import { once } from 'node:events';
import http from 'node:http';
import { send } from '../../support/service.ts';

const CHECK_INTERVAL_MS = 100;

/** Headers that are about one connection, rather than about the request or the answer. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'transfer-encoding'];

/** A replica, as the load balancer sees it. */
interface Replica {
  origin: string;
  isReady: boolean;
  /** Keeps connections, unless an answer says that they are to be closed. */
  agent: http.Agent;
}

/**
 * A plain HTTP load balancer: takes turns among the replicas that were ready when it last asked, every 100 ms, and
 * repeats nothing.
 */
export class LoadBalancer {
  readonly #server = http.createServer((request, response) => this.#forward(request, response));
  readonly #replicas = new Map<string, Replica>();
  readonly #timer = setInterval(() => void this.#checkAll(), CHECK_INTERVAL_MS);
  #turn = 0;
  #origin = '';

  static async start(): Promise<LoadBalancer> {
    const balancer = new LoadBalancer();
    balancer.#server.listen(0, '127.0.0.1');
    await once(balancer.#server, 'listening');
    const address = balancer.#server.address();
    if (address === null || typeof address !== 'object') throw new Error('a TCP server listens on a port');
    balancer.#origin = `http://127.0.0.1:${address.port}`;
    return balancer;
  }

  get origin(): string {
    return this.#origin;
  }

  /** Adds a replica, and waits until it is ready. */
  async add(origin: string): Promise<void> {
    const replica = { origin, isReady: false, agent: new http.Agent({ keepAlive: true }) };
    this.#replicas.set(origin, replica);
    while (!replica.isReady) await this.#check(replica);
  }

  remove(origin: string): void {
    this.#replicas.get(origin)?.agent.destroy();
    this.#replicas.delete(origin);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    for (const origin of this.#replicas.keys()) this.remove(origin);
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #checkAll(): Promise<void> {
    await Promise.all([...this.#replicas.values()].map((replica) => this.#check(replica)));
  }

  async #check(replica: Replica): Promise<void> {
    const status = await send(`${replica.origin}/health/ready`).then(
      (answer) => answer.status,
      () => 0,
    );
    replica.isReady = status === 200;
  }

  #forward(request: http.IncomingMessage, response: http.ServerResponse): void {
    const ready = [...this.#replicas.values()].filter(({ isReady }) => isReady);
    const replica = ready[this.#turn++ % ready.length];
    if (replica === undefined) {
      response.writeHead(502).end('no replica is ready');
      return;
    }
    const { method, url = '/' } = request;
    const headers = withoutHopByHop(request.headers);
    const upstream = http.request(new URL(url, replica.origin), { method, headers, agent: replica.agent });
    upstream.once('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, withoutHopByHop(answer.headers));
      answer.pipe(response);
      answer.once('error', () => response.destroy());
    });
    upstream.once('error', ({ message }) => {
      if (response.headersSent) response.destroy();
      else response.writeHead(502).end(message);
    });
    request.pipe(upstream);
  }
}

function withoutHopByHop<T>(headers: NodeJS.Dict<T>): NodeJS.Dict<T> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name)));
}
