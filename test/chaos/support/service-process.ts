import { readFileSync } from 'node:fs';
import path from 'node:path';
import { vi } from 'vitest';
import { killGroup, type Outcome, projectFolder, type Running, start } from '../../support/command.ts';
import { descendants, processes } from '../../support/dev-project.ts';
import { type Answer, type RequestOptions, send } from '../../support/service.ts';

const START_TIMEOUT_MS = 15_000;

/** An answer, and how long it took. */
export interface TimedAnswer extends Answer {
  milliseconds: number;
}

export interface ServiceProcessOptions {
  /** What requests are sent with. */
  key: string;
  env: Readonly<Record<string, string>>;
  /** Whether npm is its parent, rather than that it runs the start script itself. */
  throughNpm?: boolean;
}

/** The service as a process of its own, as production runs it. */
export class ServiceProcess {
  readonly origin: string;
  readonly port: number;
  /** Of the service itself, not of npm. */
  readonly pid: number;
  readonly key: string;
  readonly #running: Running;

  private constructor(running: Running, origin: string, key: string) {
    this.origin = origin;
    this.port = Number(new URL(origin).port);
    this.key = key;
    this.pid = serverPid(Number(running.process.pid));
    this.#running = running;
  }

  static async start({ key, env, throughNpm = false }: ServiceProcessOptions): Promise<ServiceProcess> {
    const [program, args] = throughNpm
      ? (['npm', ['start', '--silent']] as const)
      : (['/bin/sh', ['-c', startScript()]] as const);
    const running = start(program, [...args], { env: { PORT: '0', OPS_PORT: '0', ...env } });
    try {
      const origin = await vi.waitFor(() => listeningAt(running), {
        timeout: START_TIMEOUT_MS,
        interval: 20,
      });
      return new ServiceProcess(running, origin, key);
    } catch (error) {
      await killGroup(running);
      throw error;
    }
  }

  get isRunning(): boolean {
    const { exitCode, signalCode } = this.#running.process;
    return exitCode === null && signalCode === null;
  }

  /** Where its metrics are. */
  get metricsUrl(): string {
    return /"msg":"Metrics at ([^"]+)"/.exec(this.#running.stdout)?.[1] ?? '';
  }

  async request(target: string, options: RequestOptions = {}): Promise<TimedAnswer> {
    const begun = performance.now();
    const answer = await send(`${this.origin}${target}`, { key: this.key, ...options });
    return { ...answer, milliseconds: performance.now() - begun };
  }

  /** Tells it to stop (npm, where that is its parent), and waits until it has. */
  async stop(): Promise<Outcome> {
    this.#running.process.kill('SIGTERM');
    return this.#running.ended;
  }

  /** Ends it at once, in the middle of what it does. */
  kill(): Promise<void> {
    return killGroup(this.#running);
  }
}

function listeningAt({ stdout, stderr }: Running): string {
  const [, origin] = /"msg":"Server listening at ([^"]+)"/.exec(stdout) ?? [];
  if (origin === undefined) throw new Error(`the service does not listen: ${stderr}`);
  return origin;
}

/** What `npm start` runs. */
function startScript(): string {
  const { scripts } = JSON.parse(readFileSync(path.join(projectFolder, 'package.json'), 'utf8'));
  return scripts.start;
}

function serverPid(parent: number): number {
  const family = descendants(parent);
  const server = processes().find(
    ({ pid, command }) => family.includes(pid) && / dist\/main\.js/.test(command),
  );
  if (server === undefined) throw new Error('the service has no process');
  return server.pid;
}
