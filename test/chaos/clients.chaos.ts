import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { RawConnection } from '../support/socket.ts';
import { ChaosPostgres } from './support/chaos-postgres.ts';
import { readHoldings } from './support/metrics.ts';
import { expectBack, operations, requestAll } from './support/operations.ts';
import { ServiceProcess } from './support/service-process.ts';

const POOL_SIZE = 5;
const REQUEST_TIMEOUT_MS = 1500;
const DEADLINE_MS = 1000;
/** How much later than its time-out a client is cut off at the most, on a busy machine. */
const LATENESS_MS = 1500;

let postgres: ChaosPostgres;
let service: ServiceProcess;

beforeAll(async () => {
  const started = await ChaosPostgres.startMigrated();
  postgres = started.postgres;
  const env = {
    DATABASE_URL: postgres.url,
    DATABASE_POOL_SIZE: `${POOL_SIZE}`,
    REQUEST_DEADLINE_MS: `${DEADLINE_MS}`,
    REQUEST_TIMEOUT_MS: `${REQUEST_TIMEOUT_MS}`,
    SHUTDOWN_PAUSE_MS: '0',
  };
  service = await ServiceProcess.start({ key: started.key, env });
  await postgres.query(`INSERT INTO pets (name, category_id, status)
    SELECT repeat('x', 1000), number, 'sold' FROM generate_series(1, 100) AS number`);
});
beforeEach(() => expectBack(service, 2000));
afterAll(async () => {
  await service?.kill();
  await postgres?.destroy();
});

const headOf = (line: string) => `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\n`;
const get = (target: string) => `${headOf(`GET ${target}`)}\r\n`;
const post = (body: string) =>
  `${headOf('POST /v1/pets')}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
/** Its answer has 100 kB. */
const LARGE_PAGE = '/v1/pets?limit=100&status=sold';
const PET = '{"name":"broken off","categoryId":1}';

describe('connections that are broken off', () => {
  /** What a client has sent when it breaks its connection off, and whether it has begun to read the answer. */
  const stages = () => [
    { sent: '' },
    { sent: post(PET).slice(0, 60) },
    { sent: post(PET).slice(0, -10) },
    { sent: post(PET) },
    { sent: get(LARGE_PAGE), reads: true },
  ];

  async function breakOff({ sent, reads = false }: { sent: string; reads?: boolean }, how: 'FIN' | 'RST') {
    const socket = net.connect(service.port, '127.0.0.1').on('error', () => {});
    await once(socket, 'connect');
    if (sent !== '') await new Promise((resolve) => socket.write(sent, resolve));
    if (reads) {
      await once(socket, 'data');
      socket.pause();
    }
    if (how === 'RST') return void socket.resetAndDestroy();
    socket.end().resume();
    await once(socket, 'close');
  }

  async function breakOffMany(rounds: number): Promise<void> {
    for (let round = 0; round < rounds; round++) {
      const all = Array.from({ length: 60 }, () =>
        stages().flatMap((stage) => [breakOff(stage, 'FIN'), breakOff(stage, 'RST')]),
      );
      await Promise.all(all.flat());
    }
  }

  test('leave nothing behind: no file, no connection, no memory', async () => {
    const before = await readHoldings(service);
    await breakOffMany(10); // has Node reach its working size
    const warm = await readHoldings(service);
    await breakOffMany(30);
    const isAllGone = async () => {
      const { files = 0, connections } = await readHoldings(service);
      return files <= (before.files ?? 0) + POOL_SIZE && connections <= before.connections + POOL_SIZE;
    };
    await expect.poll(isAllGone, { timeout: 5000 }).toBe(true);
    const after = await readHoldings(service);
    expect(after.residentMiB).toBeLessThan(warm.residentMiB + 32);
    expect(await postgres.connectionsOfService()).toBeLessThanOrEqual(POOL_SIZE);
    expect((await requestAll(service)).map(({ status }) => status)).toEqual([200, 200, 201, 202]);
  });
});

describe('clients that are slow', () => {
  /** Sends a part at once, and the rest a byte at a time. @returns the answer, and when the connection was closed */
  async function trickle(atOnce: string, rest: string) {
    const begun = performance.now();
    const connection = new RawConnection(service.port);
    connection.send(atOnce);
    let isOpen = true;
    const closed = connection.closed().then(() => {
      isOpen = false;
    });
    for (const byte of rest) {
      if (!isOpen) break;
      connection.send(byte);
      await sleep(100);
    }
    await closed;
    const [answer] = await connection.answers(1);
    return { status: answer?.status, milliseconds: performance.now() - begun };
  }

  test('in sending are cut off with 408, and hold up nobody meanwhile', async () => {
    const head = post(PET).slice(0, -PET.length);
    const slow = Array.from({ length: 40 }, () => [trickle('', head), trickle(head, PET)]).flat();
    const latencies: number[] = [];
    const until = performance.now() + REQUEST_TIMEOUT_MS;
    while (performance.now() < until) {
      for (const { status, milliseconds } of await requestAll(service)) {
        expect(status).toBeLessThan(300);
        latencies.push(milliseconds);
      }
    }
    for (const { status, milliseconds } of await Promise.all(slow)) {
      expect(status).toBe(408);
      expect(milliseconds).toBeGreaterThan(REQUEST_TIMEOUT_MS * 0.9);
      expect(milliseconds).toBeLessThan(REQUEST_TIMEOUT_MS + LATENESS_MS);
    }
    const [median = 0] = latencies.toSorted((a, b) => a - b).slice(latencies.length / 2);
    expect(median).toBeLessThan(100);
    expect(Math.max(...latencies)).toBeLessThan(1000);
  });

  test('in reading are cut off, and what waits for them is bounded', async () => {
    const before = await readHoldings(service);
    const sockets = Array.from({ length: 20 }, () =>
      net
        .connect(service.port, '127.0.0.1')
        .on('error', () => {})
        .pause(),
    );
    for (const socket of sockets) socket.write(get(LARGE_PAGE).repeat(200)); // 20 MB of answers
    const connections = async () => (await readHoldings(service)).connections;
    await expect.poll(connections).toBeGreaterThanOrEqual(before.connections + sockets.length);
    let peakMiB = 0;
    const isOver = async () => {
      const { connections, residentMiB } = await readHoldings(service);
      peakMiB = Math.max(peakMiB, residentMiB);
      return connections <= before.connections + POOL_SIZE;
    };
    // Node looks once in this time whether anything has moved since it last did.
    const timeout = 2 * (REQUEST_TIMEOUT_MS + DEADLINE_MS) + LATENESS_MS;
    await expect.poll(isOver, { timeout, interval: 100 }).toBe(true);
    for (const socket of sockets) socket.destroy();
    expect(peakMiB).toBeLessThan(300);
    expect((await operations.create(service)).status).toBe(201);
  });
});
