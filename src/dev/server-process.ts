import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const SERVER = fileURLToPath(new URL('server.ts', import.meta.url));
const STOP_TIMEOUT_MS = 5000;

/** The server, in a process of its own that can be started anew. */
export class ServerProcess {
  readonly #onFailure: () => void;
  #databaseUrl: string | undefined;
  #child: ChildProcess;
  #hasServed = false;

  /** Starts the process, which loads its modules and waits for its database. `onFailure`: it could not serve at all. */
  constructor(onFailure: () => void) {
    this.#onFailure = onFailure;
    this.#child = this.#start();
  }

  /** Gives it the address of its database. */
  async serve(databaseUrl: string): Promise<void> {
    if (databaseUrl === this.#databaseUrl) return;
    const first = this.#databaseUrl === undefined;
    this.#databaseUrl = databaseUrl;
    if (first) this.#child.send(databaseUrl);
    else await this.restart();
  }

  async restart(): Promise<void> {
    await this.stop();
    this.#child = this.#start();
    if (this.#databaseUrl !== undefined) this.#child.send(this.#databaseUrl);
  }

  /** Lets it answer the requests under way. */
  async stop(): Promise<void> {
    const child = this.#child;
    child.removeAllListeners('exit');
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const impatience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(impatience);
  }

  #start(): ChildProcess {
    const child = fork(SERVER, { execArgv: ['--import', 'tsx'] });
    child.on('message', () => {
      this.#hasServed = true;
    });
    child.on('exit', (_code, signal) => {
      if (signal !== null) void this.restart();
      else if (this.#hasServed)
        console.error('The server ended; it starts again with the next change of a file.');
      else this.#onFailure();
    });
    return child;
  }
}
