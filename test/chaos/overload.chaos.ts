import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Exchange, type LoadResult, load } from '../../bench/load.ts';
import { RawConnection } from '../support/socket.ts';
import { ChaosPostgres } from './support/chaos-postgres.ts';
import { readHoldings } from './support/metrics.ts';
import { expectBack, expectRefusal, isSuccess, keepRequesting, requestAll } from './support/operations.ts';
import { ServiceProcess, type TimedAnswer } from './support/service-process.ts';

const PEAK_CONNECTIONS = 64;
const MIN_ROUNDS = 3;
const MAX_ROUNDS = 9;
const DEADLINE_MS = 1500;
const GRACE_MS = 500;
const MAX_CONNECTIONS = 400;
/** What `npm start` gives Node for its heap, and as much again for all else. */
const MAX_RESIDENT_MIB = 512;

let postgres: ChaosPostgres;
let service: ServiceProcess;

beforeEach(async () => {
  const started = await ChaosPostgres.startMigrated();
  postgres = started.postgres;
  const env = {
    DATABASE_URL: postgres.url,
    REQUEST_DEADLINE_MS: `${DEADLINE_MS}`,
    MAX_CONNECTIONS: `${MAX_CONNECTIONS}`,
    SHUTDOWN_PAUSE_MS: '0',
  };
  service = await ServiceProcess.start({ key: started.key, env });
  await expectBack(service, 2000);
});
afterEach(async () => {
  await service?.kill();
  await postgres?.destroy();
});

const get = (target: string) =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\n\r\n`;

async function expectNormalLatency(): Promise<void> {
  const answers: TimedAnswer[] = [];
  for (let count = 0; count < 10; count++) answers.push(...(await requestAll(service)));
  expect(answers.filter((answer) => !isSuccess(answer))).toEqual([]);
  const latencies = answers.map(({ milliseconds }) => milliseconds).toSorted((a, b) => a - b);
  expect(latencies[latencies.length / 2]).toBeLessThan(100);
}

describe('five times as many connections as at the peak', () => {
  test('are answered at no less than 80 % of its rate, in bounded memory, and leave no queue behind', async () => {
    const list: Exchange = {
      request: get('/v1/pets'),
      adds: false,
      check: (status) => (status === 200 ? undefined : `status ${status}`),
    };
    const measure = async (connections: number, milliseconds: number): Promise<number> => {
      const result = await load({ port: service.port, connections, milliseconds, next: () => list });
      return goodput(result);
    };
    await measure(PEAK_CONNECTIONS, 1500); // has Node compile what it runs
    let peak = 0;
    let overload = 0;
    // What others do on the machine costs some rounds; the best of each is what the service can do.
    for (let round = 0; round < MAX_ROUNDS && (round < MIN_ROUNDS || overload < 0.8 * peak); round++) {
      peak = Math.max(peak, await measure(PEAK_CONNECTIONS, 700));
      overload = Math.max(overload, await measure(5 * PEAK_CONNECTIONS, 700));
    }
    expect(overload).toBeGreaterThanOrEqual(0.8 * peak);
    expect((await readHoldings(service)).residentMiB).toBeLessThan(MAX_RESIDENT_MIB);
    await expectNormalLatency();
  });
});

function goodput({ requests, errors, seconds }: LoadResult): number {
  return (requests - errors) / seconds;
}

describe('more connections than MAX_CONNECTIONS', () => {
  test('are refused at once, and served once others have left', async () => {
    const { connections: before } = await readHoldings(service);
    const idle = Array.from({ length: MAX_CONNECTIONS }, () => new RawConnection(service.port));
    const connections = async () => (await readHoldings(service)).connections;
    await expect.poll(connections).toBeGreaterThanOrEqual(before + MAX_CONNECTIONS);

    const surplus = new RawConnection(service.port);
    const begun = performance.now();
    surplus.send(get('/v1/pets'));
    const [refusal] = await surplus.answers(1);
    expect(refusal).toMatchObject({ status: 503, body: expect.stringContaining('"unavailable"') });
    expect(refusal?.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect(performance.now() - begun).toBeLessThan(GRACE_MS);
    await surplus.closed();

    for (const connection of idle) connection.destroy();
    await expect.poll(connections).toBeLessThan(MAX_CONNECTIONS);
    await expectNormalLatency();
  });
});

describe('a database that is too slow for the load', () => {
  test('has requests refused in time, rather than wait ever longer', async () => {
    const loads = Array.from({ length: 40 }, () => keepRequesting(service, { pauseMs: 5 }));
    for (let burst = 0; burst < 3; burst++) {
      const unlock = await postgres.lock('pets');
      await sleep(800);
      await unlock();
      await sleep(100);
    }
    const answers = (await Promise.all(loads.map((each) => each.stop()))).flat();
    const refused = answers.filter((answer) => !isSuccess(answer));
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) expectRefusal(answer, 'unavailable');
    const slowest = Math.max(...answers.map(({ milliseconds }) => milliseconds));
    expect(slowest).toBeLessThan(DEADLINE_MS + GRACE_MS);
    expect((await readHoldings(service)).residentMiB).toBeLessThan(MAX_RESIDENT_MIB);
    await expectNormalLatency();
  });
});
