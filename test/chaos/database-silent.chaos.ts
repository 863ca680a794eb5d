import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ChaosPostgres } from './support/chaos-postgres.ts';
import { Network } from './support/network.ts';
import { expectBack, expectRefusal, operations, requestAll } from './support/operations.ts';
import { ServiceProcess } from './support/service-process.ts';

const DEADLINE_MS = 1500;
const GRACE_MS = 500;
const SHUTDOWN_PAUSE_MS = 300;

let postgres: ChaosPostgres;
let network: Network;
let service: ServiceProcess;

beforeEach(async () => {
  const started = await ChaosPostgres.startMigrated();
  postgres = started.postgres;
  network = await Network.start(postgres.url);
  const env = {
    DATABASE_URL: network.url,
    REQUEST_DEADLINE_MS: `${DEADLINE_MS}`,
    SHUTDOWN_PAUSE_MS: `${SHUTDOWN_PAUSE_MS}`,
  };
  service = await ServiceProcess.start({ key: started.key, env });
  await operations.create(service);
  await fillPool();
});
afterEach(async () => {
  await service?.kill();
  await network?.stop();
  await postgres?.destroy();
});

/** Has requests of each kind hold a connection at the same time, so that the pool has several. */
async function fillPool(): Promise<void> {
  const unlockPets = await postgres.lock('pets');
  const unlockMessages = await postgres.lock('messages');
  const answers = requestAll(service);
  await expect.poll(() => postgres.connectionsOfService()).toBeGreaterThanOrEqual(4);
  await unlockPets();
  await unlockMessages();
  await answers;
}

/** Requests of each kind, several at once and several after one another, are refused in time. */
async function expectRefusalsInTime(): Promise<void> {
  const waves = [0, 100, 400, 700].map(async (delayMs) => {
    await sleep(delayMs);
    return requestAll(service);
  });
  for (const [list, get, ...writes] of await Promise.all(waves)) {
    for (const read of [list, get]) expectRefusal(read, 'unavailable');
    for (const write of writes)
      expectRefusal(write, expect.stringMatching(/^(unavailable|outcome_unknown)$/));
    for (const { milliseconds } of [list, get, ...writes]) {
      expect(milliseconds).toBeLessThan(DEADLINE_MS + GRACE_MS);
    }
  }
}

describe('while PostgreSQL stands still', () => {
  test('each request is refused within the deadline, health says so, and all is well soon after', async () => {
    postgres.freeze();
    const refusals = expectRefusalsInTime();
    for (let count = 0; count < 10; count++) {
      const live = await service.request('/health/live');
      expect(live.status).toBe(200);
      expect(live.milliseconds).toBeLessThan(250);
      await sleep(50);
    }
    const ready = await service.request('/health/ready');
    expectRefusal(ready, 'unavailable');
    expect(ready.milliseconds).toBeLessThan(DEADLINE_MS + GRACE_MS);
    await refusals;
    await expectRefusalsInTime();

    postgres.thaw();
    await expectBack(service, 3000);
  });

  test('SIGTERM ends the service with exit code 0, once it has answered', async () => {
    postgres.freeze();
    const underWay = requestAll(service);
    await sleep(100);
    const begun = performance.now();
    const { exitCode } = await service.stop();
    expect(exitCode).toBe(0);
    expect(performance.now() - begun).toBeLessThan(SHUTDOWN_PAUSE_MS + DEADLINE_MS + 3000);
    expect((await underWay).map(({ status }) => status)).toEqual([503, 503, 503, 503]);
  });
});

describe('when the network loses the connections without a word', () => {
  test('the service does not wait for each of them in turn', async () => {
    const connections = await postgres.connectionsOfService();
    expect(connections).toBeGreaterThanOrEqual(4);
    network.loseConnections();
    await expectBack(service, 2 * DEADLINE_MS);
  });
});
