import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { send } from '../support/service.ts';
import { exchange } from '../support/socket.ts';
import { ChaosPostgres } from './support/chaos-postgres.ts';
import { LoadBalancer } from './support/load-balancer.ts';
import { expectRefusal, operations } from './support/operations.ts';
import { ServiceProcess } from './support/service-process.ts';

const PAUSE_MS = 1000;

let postgres: ChaosPostgres;
let key: string;
const services: ServiceProcess[] = [];

beforeAll(async () => {
  ({ postgres, key } = await ChaosPostgres.startMigrated());
});
afterEach(() => Promise.all(services.splice(0).map((service) => service.kill())));
afterAll(() => postgres?.destroy());

async function start(env: Record<string, string> = {}, throughNpm = false): Promise<ServiceProcess> {
  const settings = { DATABASE_URL: postgres.url, SHUTDOWN_PAUSE_MS: `${PAUSE_MS}`, ...env };
  const service = await ServiceProcess.start({ key, env: settings, throughNpm });
  services.push(service);
  return service;
}

/** Has clients add and list animals through an origin, on connections that they keep. */
function startClients(origin: string, { clients }: { clients: number }) {
  const added: string[] = [];
  const failed: unknown[] = [];
  let isOver = false;
  const request = async (name: string) => {
    const adds = name.endsWith('even');
    const body = adds ? { body: { name, categoryId: 1 } } : {};
    try {
      const { status, text } = await send(`${origin}/v1/pets`, { key, ...body });
      if (status !== (adds ? 201 : 200)) failed.push({ name, status, text });
      else if (adds) added.push(name);
    } catch (error) {
      failed.push({ name, error });
    }
  };
  const client = async (number: number) => {
    for (let count = 0; !isOver; count++) {
      await request(`${origin} ${number} ${count} ${count % 2 === 0 ? 'even' : 'odd'}`);
      await sleep(2);
    }
  };
  const all = Array.from({ length: clients }, (_, number) => client(number));
  return {
    added,
    failed,
    stop: async () => {
      isOver = true;
      await Promise.all(all);
    },
  };
}

describe('a rolling restart behind a load balancer loses no request', () => {
  test.each([
    { who: 'the service', throughNpm: false },
    { who: 'npm', throughNpm: true },
  ])('SIGTERM is sent to $who', { timeout: 60_000 }, async ({ throughNpm }) => {
    const balancer = await LoadBalancer.start();
    try {
      const replicas = await Promise.all([start({}, throughNpm), start({}, throughNpm)]);
      for (const { origin } of replicas) await balancer.add(origin);
      const clients = startClients(balancer.origin, { clients: 6 });
      await sleep(300);
      for (const replica of replicas) {
        const before = clients.added.length;
        expect((await replica.stop()).exitCode).toBe(0);
        balancer.remove(replica.origin);
        expect(clients.added.length).toBeGreaterThan(before);
        await balancer.add((await start({}, throughNpm)).origin);
      }
      await sleep(300);
      await clients.stop();

      expect(clients.failed).toEqual([]);
      const stored = await postgres.query<{ name: string }>(
        'SELECT name FROM pets WHERE starts_with(name, $1)',
        [balancer.origin],
      );
      expect(stored.map(({ name }) => name).toSorted()).toEqual(clients.added.toSorted());
    } finally {
      await balancer.stop();
    }
  });
});

describe('after SIGTERM', () => {
  test('readiness ends at once, while requests are served for the pause, each as the last of its connection', async () => {
    const service = await start();
    const begun = performance.now();
    const stopped = service.stop();
    await expect
      .poll(async () => (await service.request('/health/ready')).status, {
        timeout: PAUSE_MS / 2,
        interval: 10,
      })
      .toBe(503);
    while (performance.now() - begun < PAUSE_MS * 0.7) {
      const request = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
      const { status, headers } = await exchange(service.port, request);
      expect([status, headers.connection]).toEqual([200, 'close']);
      const ready = await service.request('/health/ready');
      expectRefusal(ready, 'unavailable');
      await sleep(20);
    }
    expect((await stopped).exitCode).toBe(0);
    const milliseconds = performance.now() - begun;
    expect(milliseconds).toBeGreaterThan(PAUSE_MS * 0.95);
    expect(milliseconds).toBeLessThan(PAUSE_MS + 1500);
    await expect(service.request('/health/live')).rejects.toThrow();
  });

  test('the request under way is answered, though it takes longer than the pause', async () => {
    const service = await start({ SHUTDOWN_PAUSE_MS: '100' });
    const unlock = await postgres.lock('pets');
    onTestFinished(unlock);
    const create = operations.create(service);
    await sleep(100);
    const stopped = service.stop();
    await sleep(500);
    const begun = performance.now();
    await unlock();
    expect((await create).status).toBe(201);
    expect((await stopped).exitCode).toBe(0);
    expect(performance.now() - begun).toBeLessThan(1500);
  });

  test('what does not end by SHUTDOWN_TIMEOUT_MS is broken off, with exit code 1', async () => {
    const service = await start({
      SHUTDOWN_PAUSE_MS: '0',
      SHUTDOWN_TIMEOUT_MS: '1000',
      REQUEST_DEADLINE_MS: '20000',
    });
    const unlock = await postgres.lock('pets');
    onTestFinished(unlock);
    const brokenOff = expect(operations.list(service)).rejects.toThrow();
    await sleep(100);
    const begun = performance.now();
    expect((await service.stop()).exitCode).toBe(1);
    const milliseconds = performance.now() - begun;
    expect(milliseconds).toBeGreaterThan(900);
    expect(milliseconds).toBeLessThan(2500);
    await brokenOff;
    await unlock();
  });
});
