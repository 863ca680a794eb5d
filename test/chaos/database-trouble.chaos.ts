import { existsSync, renameSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { codeOf } from '../../src/db/errors.ts';
import { statementsHeldUp } from '../support/database.ts';
import { ChaosPostgres } from './support/chaos-postgres.ts';
import { expectBack, expectRefusal, operations, requestAll } from './support/operations.ts';
import { ServiceProcess, type TimedAnswer } from './support/service-process.ts';

const DEADLINE_MS = 1500;
const GRACE_MS = 500;
const BACK_WITHIN_MS = 2000;
const TOO_MANY_CONNECTIONS = '53300';
const FULL_DEVICE = '/dev/full';

let postgres: ChaosPostgres;
let service: ServiceProcess;

beforeAll(async () => {
  const started = await ChaosPostgres.startMigrated({ max_connections: '20' });
  postgres = started.postgres;
  const env = { DATABASE_URL: postgres.url, REQUEST_DEADLINE_MS: `${DEADLINE_MS}`, SHUTDOWN_PAUSE_MS: '0' };
  service = await ServiceProcess.start({ key: started.key, env });
  await operations.create(service);
});
beforeEach(() => expectBack(service, BACK_WITHIN_MS));
afterAll(async () => {
  await service?.kill();
  await postgres?.destroy();
});

function expectInTime(...answers: TimedAnswer[]): void {
  for (const { milliseconds } of answers) expect(milliseconds).toBeLessThan(DEADLINE_MS + GRACE_MS);
}

/** Locks a table until the function that it gives is called, or the test is over. */
async function lock(table: string): Promise<() => Promise<void>> {
  const unlock = await postgres.lock(table);
  onTestFinished(unlock);
  return unlock;
}

const countPets = async (name: string) =>
  (await postgres.query('SELECT FROM pets WHERE name = $1', [name])).length;
const createPet = (name: string, headers: Record<string, string> = {}) =>
  service.request('/v1/pets', { body: { name, categoryId: 1 }, headers });

describe('when others have all connections', () => {
  /** @returns what gives them back */
  async function takeAllConnections(): Promise<() => Promise<void>> {
    const clients: pg.Client[] = [];
    const takeRest = async () => {
      for (;;) {
        const client = new pg.Client({ connectionString: postgres.url }).on('error', () => {});
        try {
          await client.connect();
        } catch (error) {
          if (codeOf(error) === TOO_MANY_CONNECTIONS) return;
          throw error;
        }
        clients.push(client);
      }
    };
    const giveBack = async () => void (await Promise.all(clients.map((client) => client.end())));
    onTestFinished(giveBack);
    await postgres.cutService();
    await takeRest();
    return giveBack;
  }

  test('each request is refused in time, and nothing is once they leave', async () => {
    const giveBack = await takeAllConnections();
    for (let count = 0; count < 3; count++) {
      const answers = await requestAll(service);
      for (const answer of answers) expectRefusal(answer, 'unavailable');
      expectInTime(...answers);
    }
    expect((await service.request('/health/live')).status).toBe(200);
    expectRefusal(await service.request('/health/ready'), 'unavailable');
    await giveBack();
    await expectBack(service, BACK_WITHIN_MS);
  });
});

describe('when the synchronous standby never answers', () => {
  test('the outcome of a write is unknown, and repeating it with its Idempotency-Key stores one', async () => {
    const relent = () => postgres.configure({ synchronous_standby_names: null });
    onTestFinished(relent);
    await postgres.configure({ synchronous_standby_names: 'ghost' });
    const idempotent = () => createPet('not replicated', { 'idempotency-key': 'ghost' });
    const [create, message] = await Promise.all([idempotent(), operations.message(service)]);
    for (const write of [create, message]) expectRefusal(write, 'outcome_unknown');
    expectInTime(create, message);
    const repeated = await idempotent();
    expectRefusal(repeated, expect.stringMatching(/^(unavailable|outcome_unknown)$/));
    expectInTime(repeated);
    expect((await operations.list(service)).status).toBe(200);

    await relent();
    await expect.poll(async () => (await idempotent()).status, { timeout: BACK_WITHIN_MS }).toBe(201);
    expect(await countPets('not replicated')).toBe(1);
  });
});

describe('when a table is locked', () => {
  test('pets: requests for animals are refused in time and store nothing, others are answered', async () => {
    const unlock = await lock('pets');
    const [list, get, create, keyed, message, live, ready] = await Promise.all([
      operations.list(service),
      operations.get(service),
      createPet('locked'),
      createPet('locked', { 'idempotency-key': 'locked' }),
      operations.message(service),
      service.request('/health/live'),
      service.request('/health/ready'),
    ]);
    expect([message.status, live.status, ready.status]).toEqual([202, 200, 200]);
    expect(message.milliseconds).toBeLessThan(GRACE_MS);
    for (const answer of [list, get, create, keyed]) expectRefusal(answer, 'unavailable');
    expectInTime(list, get, create, keyed);
    await expect.poll(() => statementsHeldUp(postgres.url)).toBe(0);

    await unlock();
    await expectBack(service, 1000);
    expect(await countPets('locked')).toBe(0);
  });

  test('api_keys: requests with a key are refused in time and store nothing, others are answered', async () => {
    const unlock = await lock('api_keys');
    const [answers, create, documents, ready] = await Promise.all([
      requestAll(service),
      createPet('locked'),
      service.request('/openapi.json'),
      service.request('/health/ready'),
    ]);
    expect([documents.status, ready.status]).toEqual([200, 200]);
    for (const answer of [...answers, create]) expectRefusal(answer, 'unavailable');
    expectInTime(...answers, create);

    await unlock();
    await expectBack(service, 1000);
    expect(await countPets('locked')).toBe(0);
  });
});

describe('when the disk is full', () => {
  /** Puts the animals, of which it leaves none, on a device whose every write ends with "No space left on device". */
  async function fillDisk(): Promise<void> {
    await postgres.query('TRUNCATE pets');
    const [file] = await postgres.query<{ name: string }>("SELECT pg_relation_filepath('pets') AS name");
    const heap = path.join(postgres.data, file?.name ?? '');
    renameSync(heap, `${heap}.away`);
    symlinkSync(FULL_DEVICE, heap);
  }

  test.skipIf(!existsSync(FULL_DEVICE))(
    `writes are refused and reads answered, until there is room again (needs ${FULL_DEVICE})`,
    async () => {
      await fillDisk();
      const makeRoom = () => postgres.query('TRUNCATE pets RESTART IDENTITY'); // takes a new file
      onTestFinished(async () => void (await makeRoom()));
      for (let count = 0; count < 3; count++) {
        const [list, create, keyed, message] = await Promise.all([
          operations.list(service),
          createPet('no room'),
          createPet('no room', { 'idempotency-key': 'no-room' }),
          operations.message(service),
        ]);
        for (const answer of [create, keyed]) expectRefusal(answer, 'unavailable');
        expectInTime(create, keyed);
        expect([list.status, message.status]).toEqual([200, 202]);
      }
      await makeRoom();
      expect((await createPet('room', { 'idempotency-key': 'no-room' })).status).toBe(201);
      expect(await countPets('no room')).toBe(0);
      await expectBack(service, BACK_WITHIN_MS);
    },
  );
});
