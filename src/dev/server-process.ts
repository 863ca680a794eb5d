import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const SERVER = fileURLToPath(new URL('serve.ts', import.meta.url));
const STOP_TIMEOUT_MS = 5000;

/** The server, in a process of its own that can be started anew. Acts that come together are done one after another. */
export class ServerProcess {
  readonly #onFailure: () => void;
  #databaseUrl: string | undefined;
  #child: ChildProcess;
  #hasServed = false;
  #hasStopped = false;
  #lastAct: Promise<void> = Promise.resolve();

  /** Starts the process, which loads its modules and waits for its database. `onFailure`: it could not serve at all. */
  constructor(onFailure: () => void) {
    this.#onFailure = onFailure;
    this.#child = this.#start();
  }

  /** Gives it the address of its database. */
  serve(databaseUrl: string): Promise<void> {
    return this.#inTurn(async () => {
      if (databaseUrl === this.#databaseUrl) return;
      const isFirst = this.#databaseUrl === undefined;
      this.#databaseUrl = databaseUrl;
      if (isFirst) this.#child.send(databaseUrl);
      else await this.#startAnew();
    });
  }

  restart(): Promise<void> {
    return this.#inTurn(() => this.#startAnew());
  }

  /** Lets it answer the requests under way. It does not start again. */
  stop(): Promise<void> {
    return this.#inTurn(async () => {
      this.#hasStopped = true;
      await this.#end();
    });
  }

  #inTurn(act: () => Promise<void>): Promise<void> {
    this.#lastAct = this.#lastAct.then(() => (this.#hasStopped ? undefined : act()));
    return this.#lastAct;
  }

  async #startAnew(): Promise<void> {
    await this.#end();
    this.#child = this.#start();
    if (this.#databaseUrl !== undefined) this.#child.send(this.#databaseUrl);
  }

  async #end(): Promise<void> {
    const child = this.#child;
    child.removeListener('exit', this.#onUnexpectedExit);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const killTimer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(killTimer);
  }

  #start(): ChildProcess {
    const child = fork(SERVER, { execArgv: ['--import', 'tsx'] });
    child.on('message', () => {
      this.#hasServed = true;
    });
    child.on('exit', this.#onUnexpectedExit);
    return child;
  }

  readonly #onUnexpectedExit = (_exitCode: number | null, signal: NodeJS.Signals | null): void => {
    if (signal !== null) void this.restart();
    else if (this.#hasServed)
      console.error('The server ended; it starts again with the next change of a file.');
    else this.#onFailure();
  };
}
