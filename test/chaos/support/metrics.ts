import { send } from '../../support/service.ts';
import type { ServiceProcess } from './service-process.ts';

const BYTES_PER_MIB = 1024 * 1024;

/** What a service holds, by its own metrics. */
export interface Holdings {
  residentMiB: number;
  /** Open files, connections among them; undefined on systems that do not tell. */
  files: number | undefined;
  /** Connections to it and to the database. */
  connections: number;
}

export async function readHoldings({ metricsUrl }: ServiceProcess): Promise<Holdings> {
  const { text } = await send(metricsUrl);
  const read = (name: string) => {
    const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
    return line === undefined ? undefined : Number(line.split(' ').at(-1));
  };
  const resident = read('process_resident_memory_bytes');
  const connections = read('nodejs_active_resources{type="TCPSocketWrap"}');
  if (resident === undefined || connections === undefined) throw new Error('the metrics lack what they had');
  return {
    residentMiB: resident / BYTES_PER_MIB,
    files: read('process_open_fds'),
    connections,
  };
}
