import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export const projectFolder = fileURLToPath(new URL('../..', import.meta.url));

export interface Outcome {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

/** A program under way, with all that it has written so far. */
export interface Running {
  process: ChildProcess;
  stdout: string;
  stderr: string;
  /** Resolves to all that it wrote, once it has ended. */
  ended: Promise<Outcome>;
}

export interface CommandOptions {
  env?: Record<string, string | undefined>;
  cwd?: string;
  uid?: number;
  gid?: number;
}

/** Starts a program. Of the environment it gets only what it needs, and what is given here. */
export function start(
  program: string,
  args: string[],
  { env = {}, cwd = projectFolder, ...options }: CommandOptions = {},
) {
  const child = spawn(program, args, {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // a process group of its own, as a terminal makes one
    ...options,
  });
  const running: Running = {
    process: child,
    stdout: '',
    stderr: '',
    ended: once(child, 'close').then(([exitCode]) => ({
      exitCode,
      stdout: running.stdout,
      stderr: running.stderr,
    })),
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    running.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    running.stderr += text;
  });
  return running;
}

/** Ends a program and all that it started in its group. */
export async function killGroup({ process: { pid }, ended }: Running): Promise<void> {
  try {
    process.kill(-Number(pid), 'SIGKILL');
  } catch {
    // It has ended already.
  }
  await ended;
}

export function run(program: string, args: string[], options?: CommandOptions): Promise<Outcome> {
  return start(program, args, options).ended;
}
