import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ChaosPostgres } from './support/chaos-postgres.ts';
import { expectBack, isSuccess, keepRequesting, operations, requestAll } from './support/operations.ts';
import { ServiceProcess } from './support/service-process.ts';
import { expectKept, startWriting } from './support/writing.ts';

const POOL_SIZE = 5;
const BACK_WITHIN_MS = 5000;

/** Each commit takes at least 20 ms, in which a crash leaves its outcome unknown. */
const SLOW_COMMITS = { fsync: 'on', commit_delay: '20000', commit_siblings: '0' };

let postgres: ChaosPostgres;
let service: ServiceProcess;
let startService: () => Promise<ServiceProcess>;

beforeEach(async () => {
  const started = await ChaosPostgres.startMigrated(SLOW_COMMITS);
  postgres = started.postgres;
  const env = {
    DATABASE_URL: postgres.url,
    DATABASE_POOL_SIZE: `${POOL_SIZE}`,
    REQUEST_DEADLINE_MS: '1500',
    SHUTDOWN_PAUSE_MS: '0',
  };
  startService = () => ServiceProcess.start({ key: started.key, env });
  service = await startService();
});
afterEach(async () => {
  await service?.kill();
  await postgres?.destroy();
});

describe('when PostgreSQL is killed under load, and started again', () => {
  test('each write is stored as it was answered: once, not at all, or perhaps', async () => {
    const writing = startWriting(() => service, { clients: 8 });
    for (let round = 0; round < 3; round++) {
      await sleep(500);
      await postgres.kill();
      await sleep(300);
      await postgres.start();
      const { acknowledged } = writing.record;
      const before = acknowledged.size;
      await expect
        .poll(() => acknowledged.size, { timeout: BACK_WITHIN_MS, interval: 20 })
        .toBeGreaterThan(before);
    }
    await sleep(300);
    const record = await writing.stop();

    expect(service.isRunning).toBe(true);
    expect(record.unanswered).toBe(0);
    expect(record.acknowledged.size).toBeGreaterThan(50);
    expect(record.refused.length).toBeGreaterThan(0);
    await expectKept(record, postgres);
    expect(record.unknown.length + record.repeated).toBeGreaterThan(0);
  });
});

describe('when PostgreSQL is restarted under load', () => {
  test('requests are answered or refused, and after the first success of each kind none is refused', async () => {
    await operations.create(service);
    const load = keepRequesting(service, { pauseMs: 5 });
    await sleep(300);
    await postgres.shutDown();
    await sleep(200);
    await postgres.start();
    await expectBack(service, BACK_WITHIN_MS);

    const answersAfter = (await Promise.all(Array.from({ length: 25 }, () => requestAll(service)))).flat();
    expect(answersAfter.filter((answer) => !isSuccess(answer))).toEqual([]);
    expect(await postgres.connectionsOfService()).toBeLessThanOrEqual(POOL_SIZE);
    const statuses = new Set((await load.stop()).map(({ status }) => status));
    expect([...statuses].sort()).toEqual([200, 201, 202, 503]);
  });
});

describe('when the service itself is killed under load', () => {
  test('each acknowledged write is stored, and what had no answer is stored once by repeating it', async () => {
    const writing = startWriting(() => service, { clients: 8 });
    for (let round = 0; round < 2; round++) {
      await sleep(500);
      await service.kill();
      service = await startService();
    }
    await sleep(300);
    const record = await writing.stop();

    expect(record.unanswered).toBeGreaterThan(0);
    expect(record.repeated).toBeGreaterThan(0);
    expect(record.acknowledged.size).toBeGreaterThan(50);
    await expectKept(record, postgres);
  });
});
