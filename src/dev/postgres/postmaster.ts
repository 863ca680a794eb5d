import { readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { codeOf } from '../../db/errors.ts';

/** What a server notes of itself in its data folder. */
export interface Postmaster {
  pid: number;
  port: number;
  ready: boolean;
}

/** The notes of the present or the last server: it may be long gone, and its pid and port another program's. */
export function readPidFile(data: string): Postmaster | undefined {
  try {
    const lines = readFileSync(path.join(data, 'postmaster.pid'), 'utf8').split('\n');
    return { pid: Number(lines[0]), port: Number(lines[3]), ready: lines[7]?.trim() === 'ready' };
  } catch {
    return undefined;
  }
}

/** The server that is really running on a data folder. */
export async function findRunning(data: string): Promise<Postmaster | undefined> {
  const noted = readPidFile(data);
  return noted?.ready && isAlive(noted.pid) && (await speaksPostgres(noted.port)) ? noted : undefined;
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'EPERM'; // it is another user's
  }
}

/** Sends an SSLRequest, which a PostgreSQL server answers with `S` or `N` (PostgreSQL, Message Formats). */
function speaksPostgres(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () =>
      socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])),
    );
    const finish = (speaks: boolean) => {
      socket.destroy();
      resolve(speaks);
    };
    socket.setTimeout(2000, () => finish(false));
    socket.once('error', () => finish(false));
    socket.once('data', ([first]) => finish(first === 'S'.charCodeAt(0) || first === 'N'.charCodeAt(0)));
  });
}

/** The port that the file remembers, where it is free, or else any free one. */
export async function choosePort(portFile: string): Promise<number> {
  try {
    return await findFreePort(Number(readFileSync(portFile, 'utf8')));
  } catch {
    return findFreePort(0);
  }
}

/** @param wanted 0 for any port; rejects where another one is taken */
export function findFreePort(wanted: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer().once('error', reject);
    server.listen(wanted, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(address !== null && typeof address === 'object' ? address.port : 0));
    });
  });
}
