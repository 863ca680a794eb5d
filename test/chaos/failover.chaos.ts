import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ChaosPostgres } from './support/chaos-postgres.ts';
import { Network } from './support/network.ts';
import { expectBack, expectRefusal, operations, requestAll } from './support/operations.ts';
import { ServiceProcess } from './support/service-process.ts';
import { expectKept, startWriting } from './support/writing.ts';

const BACK_WITHIN_MS = 5000;

let primary: ChaosPostgres;
let standby: ChaosPostgres | undefined;
let network: Network;
let service: ServiceProcess;
let startService: () => Promise<void>;

beforeEach(async () => {
  const started = await ChaosPostgres.startMigrated();
  primary = started.postgres;
  network = await Network.start(primary.url);
  startService = async () => {
    const env = { DATABASE_URL: network.url, REQUEST_DEADLINE_MS: '1500', SHUTDOWN_PAUSE_MS: '0' };
    service = await ServiceProcess.start({ key: started.key, env });
    await operations.create(service);
  };
});
afterEach(async () => {
  await service?.kill();
  await network?.stop();
  await standby?.destroy();
  standby = undefined;
  await primary?.destroy();
});

/** Requests that read are answered, those that write are refused. */
async function expectReadOnly(): Promise<void> {
  const [list, get, create, message] = await requestAll(service);
  expect([list.status, get.status]).toEqual([200, 200]);
  for (const write of [create, message]) expectRefusal(write, 'unavailable');
}

describe('when PostgreSQL comes back as a standby', () => {
  test('it is read from, and written to again once it is promoted', async () => {
    await startService();
    await primary.shutDown();
    primary.makeStandby();
    await primary.start();
    const reads = async () => [
      (await operations.list(service)).status,
      (await operations.get(service)).status,
    ];
    await expect.poll(reads, { timeout: BACK_WITHIN_MS }).toEqual([200, 200]);
    for (let count = 0; count < 5; count++) await expectReadOnly();

    await primary.query('SELECT pg_promote()');
    await expectBack(service, BACK_WITHIN_MS);
    expect(service.isRunning).toBe(true);
  });
});

describe('when another server takes over', () => {
  test('each write is on the synchronous standby that is promoted in its place as it was answered', async () => {
    // A commit is on both long before it is acknowledged: what the kill interrupts is stored.
    standby = await primary.startStandby('standby', { recovery_min_apply_delay: '50ms' });
    await primary.configure({ synchronous_standby_names: 'standby', synchronous_commit: 'remote_apply' });
    await startService();
    const writing = startWriting(() => service, { clients: 8 });
    await sleep(1000);
    await primary.kill();
    await sleep(300);
    await standby.query('SELECT pg_promote()');
    network.switchTo(standby.url);
    const { acknowledged } = writing.record;
    const before = acknowledged.size;
    await expect.poll(() => acknowledged.size, { timeout: BACK_WITHIN_MS }).toBeGreaterThan(before);
    await sleep(300);
    const record = await writing.stop();

    expect(record.unanswered).toBe(0);
    expect(before).toBeGreaterThan(20);
    await standby.query("DELETE FROM pets WHERE name = 'chaos'");
    await expectKept(record, standby);
    expect(record.unknown.length + record.repeated).toBeGreaterThan(0);
  });

  test('connections to the old primary, which lives on and only reads, are left for the new one', async () => {
    standby = await primary.startStandby('standby');
    await startService();
    expect((await requestAll(service)).map(({ status }) => status)).toEqual([200, 200, 201, 202]);
    await primary.configure({ default_transaction_read_only: 'on' });
    await expect.poll(async () => (await operations.create(service)).status).toBe(503);

    await standby.query('SELECT pg_promote()');
    network.switchTo(standby.url);
    await expectBack(service, BACK_WITHIN_MS);
    expect(await standby.query("SELECT FROM pets WHERE name = 'chaos'")).not.toEqual([]);
  });
});
