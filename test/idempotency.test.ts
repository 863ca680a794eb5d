import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createKey } from '../src/keys/commands.ts';
import { lockTable, statementsHeldUp } from './support/database.ts';
import { DatabaseProxy } from './support/proxy.ts';
import { type Answer, newKey, type Service, startService } from './support/service.ts';
import { exchange } from './support/socket.ts';

let service: Service;
let replica: Service;
beforeAll(async () => {
  service = await startService();
  replica = await startService({ databaseUrl: service.databaseUrl });
});
afterAll(() => Promise.all([service.stop(), replica.stop()]));

interface Operation {
  path: string;
  table: 'pets' | 'messages';
  status: number;
  /** A body that stores this text. */
  body: (text: string) => Record<string, unknown>;
}
const operations: [string, Operation][] = [
  [
    'POST /v1/pets',
    {
      path: '/v1/pets',
      table: 'pets',
      status: 201,
      body: (name) => ({ name, categoryId: 1, status: 'sold' }),
    },
  ],
  [
    'POST /quickstart/messages',
    { path: '/quickstart/messages', table: 'messages', status: 202, body: (message) => ({ message }) },
  ],
];

interface Sent {
  body: unknown;
  idempotencyKey?: string;
  to?: Service;
  key?: string;
}
const post = (path: string, { body, idempotencyKey, to = service, key = to.key }: Sent): Promise<Answer> =>
  to.request(path, { body, key, ...(idempotencyKey && { headers: { 'idempotency-key': idempotencyKey } }) });

async function countStored({ table }: Operation, text: string): Promise<number> {
  const column = table === 'pets' ? 'name' : 'message';
  const { count } = await service.db
    .selectFrom(table)
    .select(({ fn }) => fn.countAll<bigint>().as('count'))
    .where(column, '=', text)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** Cuts the connection at each statement that matches, the repeated ones too. */
function cutAtEach(proxy: DatabaseProxy, text: RegExp): () => void {
  proxy.cutAtNext(text);
  const again = setInterval(() => proxy.cutAtNext(text), 1);
  return () => {
    clearInterval(again);
    proxy.cutAtNext(/never sent/);
  };
}

const keyReused = { code: 'idempotency_key_reused', message: expect.any(String), status: 422 };

describe.each(operations)('%s with an Idempotency-Key', (_name, operation) => {
  const { path, table, status, body } = operation;

  test('and the same body gives the same stored resource and the same status again', async () => {
    const idempotencyKey = randomUUID();
    const first = await post(path, { body: body(idempotencyKey), idempotencyKey });
    expect(first.status).toBe(status);
    for (const to of [service, replica, service]) {
      const again = await post(path, { body: body(idempotencyKey), idempotencyKey, to });
      expect([again.status, again.text]).toEqual([status, first.text]);
      expect(again.headers.get('location')).toBe(first.headers.get('location'));
    }
    expect(await countStored(operation, idempotencyKey)).toBe(1);
  });

  test('and another body gives 422, and stores nothing', async () => {
    const idempotencyKey = randomUUID();
    await post(path, { body: body('first'), idempotencyKey });
    const other = await post(path, { body: body(idempotencyKey), idempotencyKey });
    expect([other.status, other.json]).toEqual([422, keyReused]);
    expect(await countStored(operation, idempotencyKey)).toBe(0);
  });

  test('that another account, or the other operation, has used creates', async () => {
    const idempotencyKey = randomUUID();
    const { secret: stranger } = await createKey(service.db, {
      account: `stranger ${idempotencyKey}`,
      name: 'test',
      environment: 'test',
      expiresIn: null,
      actor: 'test',
    });
    const answers = [
      await post(path, { body: body(idempotencyKey), idempotencyKey }),
      await post(path, { body: body(idempotencyKey), idempotencyKey, key: stranger }),
    ];
    expect(new Set(answers.map(({ text }) => text)).size).toBe(2);
    expect(await countStored(operation, idempotencyKey)).toBe(2);
    for (const [, other] of operations) {
      const { status } = await post(other.path, { body: other.body(idempotencyKey), idempotencyKey });
      expect(status).toBe(other.status);
    }
  });

  test('that another key of the account has used gives what that one created', async () => {
    const idempotencyKey = randomUUID();
    const first = await post(path, { body: body('shared'), idempotencyKey });
    const again = await post(path, { body: body('shared'), idempotencyKey, key: await newKey(service.db) });
    expect(again.text).toBe(first.text);
  });

  test('many at once, on two replicas, store one; all get its answer', async () => {
    const idempotencyKey = randomUUID();
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        post(path, { body: body(idempotencyKey), idempotencyKey, to: index % 2 ? service : replica }),
      ),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(status);
    expect(await countStored(operation, idempotencyKey)).toBe(1);
  });

  test('at once with another body: one of the two is stored, and the other gets 422', async () => {
    for (let round = 0; round < 5; round++) {
      const idempotencyKey = randomUUID();
      const answers = await Promise.all(
        [service, replica].map((to, index) =>
          post(path, { body: body(`${index}${idempotencyKey}`), idempotencyKey, to }),
        ),
      );
      expect(answers.map((answer) => answer.status).toSorted()).toEqual([status, 422]);
      const winner = answers.findIndex((answer) => answer.status === status);
      expect(await countStored(operation, `${winner}${idempotencyKey}`)).toBe(1);
      expect(await countStored(operation, `${1 - winner}${idempotencyKey}`)).toBe(0);
    }
  });

  test('holds inside a statement that many share: each key once, whatever stands beside it', async () => {
    const batch = randomUUID();
    const unlock = await lockTable(service.databaseUrl, table);
    const first = post(path, { body: body(`${batch} first`), idempotencyKey: randomUUID() });
    await expect.poll(() => statementsHeldUp(service.databaseUrl)).toBe(1);
    const answers = Array.from({ length: 60 }, (_, index) =>
      // Keys 0 to 9: the first three times each with one body, then three times with another.
      post(path, {
        body: body(`${batch} ${index % 10} ${index < 30 ? 'a' : 'b'}`),
        idempotencyKey: `${batch}-${index % 10}`,
      }),
    );
    await unlock();
    await first;
    const settled = await Promise.all(answers);
    for (let key = 0; key < 10; key++) {
      const ofKey = settled.filter((_, index) => index % 10 === key);
      const created = ofKey.filter((answer) => answer.status === status);
      expect(created).toHaveLength(3);
      expect(new Set(created.map(({ text }) => text)).size).toBe(1);
      expect(ofKey.filter((answer) => answer.status === 422)).toHaveLength(3);
      const stored = await Promise.all(
        ['a', 'b'].map((variant) => countStored(operation, `${batch} ${key} ${variant}`)),
      );
      expect(stored.toSorted()).toEqual([0, 1]);
    }
  });

  test('whose first request failed before anything was stored creates at the next one', async () => {
    const impatient = await startService({
      databaseUrl: service.databaseUrl,
      config: { requestDeadlineMs: 1000 },
    });
    const idempotencyKey = randomUUID();
    const unlock = await lockTable(service.databaseUrl, table);
    const failed = await post(path, { body: body(idempotencyKey), idempotencyKey, to: impatient });
    await unlock();
    expect(failed.json).toMatchObject({ code: 'unavailable' });
    const again = await post(path, { body: body(idempotencyKey), idempotencyKey, to: impatient });
    expect(again.status).toBe(status);
    expect(await countStored(operation, idempotencyKey)).toBe(1);
    await impatient.stop();
  });

  test('that was used before, but cannot be looked up, is outcome_unknown: something was stored', async () => {
    const proxy = await DatabaseProxy.start(service.databaseUrl);
    const cutOff = await startService({ databaseUrl: proxy.url });
    const idempotencyKey = randomUUID();
    const first = await post(path, { body: body(idempotencyKey), idempotencyKey, to: cutOff });
    const stopCutting = cutAtEach(
      proxy,
      /from messages|from pets|from idempotency_keys|join idempotency_keys/i,
    );
    const again = await post(path, { body: body(idempotencyKey), idempotencyKey, to: cutOff });
    expect([again.status, again.json]).toEqual([503, expect.objectContaining({ code: 'outcome_unknown' })]);
    stopCutting();
    expect((await post(path, { body: body(idempotencyKey), idempotencyKey, to: cutOff })).text).toBe(
      first.text,
    );
    await cutOff.stop();
    await proxy.goAway();
  });

  test.each([
    ['of 255 characters', 'k'.repeat(255)],
    ['of one', '!'],
    [
      'of all visible ASCII',
      Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).join(''),
    ],
  ])('%s is taken', async (_what, idempotencyKey) => {
    const first = await post(path, { body: body('visible'), idempotencyKey });
    expect(first.status).toBe(status);
    expect((await post(path, { body: body('visible'), idempotencyKey })).text).toBe(first.text);
  });

  test.each([
    ['an empty one', 'Idempotency-Key: \r\n'],
    ['256 characters', `Idempotency-Key: ${'k'.repeat(256)}\r\n`],
    ['a space in it', 'Idempotency-Key: a b\r\n'],
    ['a tab in it', 'Idempotency-Key: a\tb\r\n'],
    ['a letter beyond ASCII', 'Idempotency-Key: caf\xe9\r\n'],
    ['two of them', 'Idempotency-Key: a\r\nidempotency-key: b\r\n'],
  ])('that is malformed (%s) is 400, and nothing is stored', async (_what, header) => {
    const text = randomUUID();
    const json = JSON.stringify(body(text));
    const answer = await exchange(
      service.port,
      `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${json.length}\r\n${header}\r\n${json}`,
    );
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      400,
      { code: 'invalid_request', message: expect.stringMatching(/^Idempotency-Key must be/), status: 400 },
    ]);
    expect(await countStored(operation, text)).toBe(0);
  });
});

describe('bodies are the same when what would be stored is the same', () => {
  test.each([
    ['the order of members', '{"status":"sold","categoryId":7,"name":"Mia"}'],
    ['white space', ' {\n"name" : "Mia",\t"categoryId": 7, "status":"sold" } '],
    ['escapes', '{"\\u006eame":"\\u004dia","categoryId":7,"status":"\\u0073old"}'],
    ['1.0 for 1', '{"name":"Mia","categoryId":7.0,"status":"sold"}'],
    ['an exponent', '{"name":"Mia","categoryId":70e-1,"status":"sold"}'],
    ['unknown fields', '{"id":5,"name":"Mia","categoryId":7,"status":"sold","more":{"a":[1.5]}}'],
  ])('%s does not count', async (_what, body) => {
    const idempotencyKey = randomUUID();
    const first = await post('/v1/pets', {
      body: '{"name":"Mia","categoryId":7,"status":"sold"}',
      idempotencyKey,
    });
    const again = await post('/v1/pets', { body, idempotencyKey });
    expect([again.status, again.text]).toEqual([201, first.text]);
  });

  test.each([
    ['name', '{"name":"mia","categoryId":9007199254740993,"status":"sold"}'],
    ['categoryId, by one beyond 2^53', '{"name":"Mia","categoryId":9007199254740992,"status":"sold"}'],
    ['status', '{"name":"Mia","categoryId":9007199254740993,"status":"pending"}'],
    ['status that is not there', '{"name":"Mia","categoryId":9007199254740993}'],
    ['normal form of Unicode', '{"name":"Mi\\u0061\\u0301","categoryId":9007199254740993,"status":"sold"}'],
  ])('another %s counts', async (_what, body) => {
    const idempotencyKey = randomUUID();
    await post('/v1/pets', {
      body: '{"name":"Mia","categoryId":9007199254740993,"status":"sold"}',
      idempotencyKey,
    });
    expect((await post('/v1/pets', { body, idempotencyKey })).json).toEqual(keyReused);
  });

  test('an invalid body is refused by its own rule, and uses up no key', async () => {
    const idempotencyKey = randomUUID();
    expect((await post('/v1/pets', { body: { name: 'Mia' }, idempotencyKey })).status).toBe(400);
    expect((await post('/v1/pets', { body: { name: 'Mia', categoryId: 1 }, idempotencyKey })).status).toBe(
      201,
    );
  });

  test('for any two animals under one key: the same is answered again, another is refused', () =>
    fc.assert(
      fc.asyncProperty(animal, animal, async (one, other) => {
        const idempotencyKey = randomUUID();
        const first = await post('/v1/pets', { body: one, idempotencyKey });
        const again = await post('/v1/pets', { body: one, idempotencyKey, to: replica });
        expect([again.status, again.text]).toEqual([201, first.text]);
        const second = await post('/v1/pets', { body: other, idempotencyKey });
        expect(second.status).toBe(JSON.stringify(one) === JSON.stringify(other) ? 201 : 422);
      }),
      { numRuns: 60 },
    ));
});

const animal = fc.record(
  {
    name: fc
      .oneof(fc.constantFrom('a', 'b'), fc.string({ unit: 'grapheme', maxLength: 20 }))
      .filter((name) => !name.includes('\0')),
    categoryId: fc.oneof(fc.constantFrom(1, 2), fc.maxSafeInteger()).map((id) => (id === 0 ? 0 : id)),
    status: fc.constantFrom('available', 'pending', 'sold'),
  },
  { requiredKeys: ['name', 'categoryId'], noNullPrototype: true },
);

test('without an Idempotency-Key the same body creates each time', async () => {
  const answers = [
    await post('/v1/pets', { body: { name: 'twice', categoryId: 1 } }),
    await post('/v1/pets', { body: { name: 'twice', categoryId: 1 } }),
  ];
  expect(new Set(answers.map(({ text }) => text)).size).toBe(2);
});

test('a key is asked for, and the body checked, before an Idempotency-Key is looked at', async () => {
  const idempotencyKey = 'not a good one';
  expect((await post('/v1/pets', { body: {}, idempotencyKey, key: 'x' })).status).toBe(401);
});
