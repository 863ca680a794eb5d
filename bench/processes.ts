import { readdirSync, readFileSync } from 'node:fs';

/** What `/proc/PID/stat` counts in: USER_HZ is 100 on the Linux systems that Node runs on. */
const MICROSECONDS_PER_TICK = 10_000;

/** CPU time in microseconds that a process and all its descendants have used; undefined where `/proc` does not tell. */
export function cpuTime(pid: number): number | undefined {
  if (read('/proc/self/schedstat') === '') return undefined;
  const stats = new Map<number, Stat>();
  for (const name of list('/proc')) {
    const stat = readStat(Number(name));
    if (stat !== undefined) stats.set(Number(name), stat);
  }
  if (!stats.has(pid)) return undefined;

  const sumOf = (root: number): number => {
    let microseconds = ownCpuTime(root) + (stats.get(root)?.endedChildren ?? 0);
    for (const [child, { parent }] of stats) if (parent === root) microseconds += sumOf(child);
    return microseconds;
  };
  return sumOf(pid);
}

/** The most memory in bytes that a process has had resident; undefined where there is no `/proc`. */
export function peakMemory(pid: number): number | undefined {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`)) ?? [];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}

/** The first field of `schedstat` is the nanoseconds that a thread has run. */
function ownCpuTime(pid: number): number {
  const threads = list(`/proc/${pid}/task`);
  const nanoseconds = threads.map((thread) =>
    Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(' ')[0]),
  );
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1000;
}

/** The parent of a process, if there is a process of that name. */
export function parentOf(pid: number, name: string): number | undefined {
  const stat = readStat(pid);
  return stat?.name === name ? stat.parent : undefined;
}

interface Stat {
  name: string;
  parent: number;
  /** Microseconds that children used which have ended. */
  endedChildren: number;
}

/** See proc(5). The second field, the name, may hold spaces and parentheses. */
function readStat(pid: number): Stat | undefined {
  const text = read(`/proc/${pid}/stat`);
  if (text === '') return undefined;
  const nameEnd = text.lastIndexOf(')');
  const name = text.slice(text.indexOf('(') + 1, nameEnd);
  const fields = text.slice(nameEnd + 2).split(' ');
  const field = (number: number) => Number(fields[number - 3]);
  return { name, parent: field(4), endedChildren: (field(16) + field(17)) * MICROSECONDS_PER_TICK };
}

/** The entries whose names are numbers. */
function list(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
