import { subscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { revokeKey } from '../src/keys/commands.ts';
import { hashKey } from '../src/keys/format.ts';
import { findActiveKey } from '../src/keys/repository.ts';
import { encodeCursor } from '../src/pets/cursor.ts';
import { createDatabase, lockTable, statementsHeldUp } from './support/database.ts';
import { inDatabase } from './support/postgres.ts';
import { DatabaseProxy } from './support/proxy.ts';
import { type Answer, newKey, type Service, startService } from './support/service.ts';
import { RawConnection } from './support/socket.ts';

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

/** Requests that have come as far as to their operation, so that it has asked for what it needs of the database. */
let handled = 0;
subscribe('tracing:fastify.request.handler:start', () => {
  handled++;
});

/**
 * Keeps everybody from a table until all requests wait for it: the statement of the first one is under way, and the
 * others are to share the next.
 */
async function gather(
  { databaseUrl }: Pick<Service, 'databaseUrl'>,
  table: 'pets' | 'messages',
  requests: readonly (() => unknown)[],
): Promise<() => Promise<void>> {
  const unlock = await lockTable(databaseUrl, table);
  const [first, ...others] = requests;
  const before = handled;
  first?.();
  await expect.poll(() => statementsHeldUp(databaseUrl), { interval: 10 }).toBe(1);
  for (const request of others) request();
  await expect.poll(() => handled - before, { interval: 5 }).toBe(requests.length);
  return unlock;
}

/** Answers of requests that waited for the database at the same time. */
async function together(
  of: Pick<Service, 'databaseUrl'>,
  table: 'pets' | 'messages',
  requests: readonly (() => Promise<Answer>)[],
) {
  const answers: Promise<Answer>[] = [];
  const unlock = await gather(
    of,
    table,
    requests.map((request) => () => answers.push(request())),
  );
  await unlock();
  return Promise.all(answers);
}

const add = (name: string, to = service) => to.request('/v1/pets', { body: { name, categoryId: 1 } });
const queue = (message: string, at = service) => at.request('/quickstart/messages', { body: { message } });
const numbered = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => make(index));
const seed = (count: number, of = service) => {
  const statuses = ['available', 'pending', 'sold', null] as const;
  const pets = numbered(count, (index) => ({
    name: `seed ${index}`,
    category_id: BigInt(index),
    status: statuses[(index * 7) % 4] ?? null,
  }));
  return of.db.insertInto('pets').values(pets).returning('id').execute();
};
const namesIn = async ({ db }: Service) =>
  (await db.selectFrom('pets').select('name').execute()).map(({ name }) => name);
const idIn = ({ text }: Answer) => BigInt(/^{"id":(-?\d+)/.exec(text)?.[1] ?? 0);

const unavailable = { code: 'unavailable', message: expect.any(String), status: 503 };
const outcomeUnknown = { code: 'outcome_unknown', message: expect.any(String), status: 503 };
const internalError = { code: 'internal_error', message: expect.any(String), status: 500 };

describe('animals that are added at the same time', () => {
  const AWKWARD = [
    ...['', 'NULL', 'null', '{a,b}', '"', '\\', '\\"', "'", '},{', ',', ' ', '\t\n\r', '\u0001\u001f\u007f'],
    ...['🐈', 'é', '\u2028', '$1', '%s', '__proto__', 'x'.repeat(1000), '[1,2]', '\\N', '\\x00'],
  ];
  const CATEGORIES = ['0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808'];
  const STATUSES = ['', ',"status":"available"', ',"status":"pending"', ',"status":"sold"'];
  const members = (index: number) =>
    `"name":${JSON.stringify(`${AWKWARD[index % AWKWARD.length]}`)}` +
    `,"categoryId":${CATEGORIES[index % CATEGORIES.length]}${STATUSES[index % STATUSES.length]}`;

  test('each get their own row, with what they gave and an id of their own, also beyond 2^53', async () => {
    await service.db.deleteFrom('pets').execute();
    await sql`ALTER TABLE pets ALTER COLUMN id RESTART WITH 9007199254740991`.execute(service.db);
    const answers = await together(
      service,
      'pets',
      numbered(200, (index) => () => service.request('/v1/pets', { body: `{${members(index)}}` })),
    );
    for (const [index, { status, text, headers }] of answers.entries()) {
      const [, id, rest] = /^{"id":(\d+),(.*)}$/s.exec(text) ?? [];
      expect([status, rest]).toEqual([201, members(index)]);
      expect(headers.get('location')).toBe(`/v1/pets/${id}`);
    }
    const ids = answers.map(idIn);
    expect(new Set(ids).size).toBe(200);
    expect(ids.every((id) => id >= 9007199254740991n && id < 9007199254740991n + 200n)).toBe(true);

    const stored = await service.db.selectFrom('pets').select('id').execute();
    expect(new Set(stored.map(({ id }) => id))).toEqual(new Set(ids));
    const read = await together(
      service,
      'pets',
      ids.map((id) => () => service.request(`/v1/pets/${id}`)),
    );
    expect(read.map(({ text }) => text)).toEqual(answers.map(({ text }) => text));
    const pages = await together(
      service,
      'pets',
      ids.map((id) => () => service.request(`/v1/pets?limit=1&cursor=${encodeCursor(id + 1n)}`)),
    );
    expect(pages.map(({ text }) => text)).toEqual(answers.map(({ text }) => `[${text}]`));
  });

  test('do not get the id, or any other member, that a body has beyond those of an animal', async () => {
    const extra = ['"id":5', '"id":"x"', '"id":null', '"owner":1', '"toString":2'];
    const answers = await together(
      service,
      'pets',
      numbered(20, (index) => () => {
        const body = `{"name":"extra ${index}","categoryId":${index},${extra[index % extra.length]}}`;
        return service.request('/v1/pets', { body });
      }),
    );
    for (const [index, answer] of answers.entries()) {
      const { id } = await service.db
        .selectFrom('pets')
        .select('id')
        .where('name', '=', `extra ${index}`)
        .executeTakeFirstOrThrow();
      expect([answer.status, answer.text]).toEqual([
        201,
        `{"id":${id},"name":"extra ${index}","categoryId":${index}}`,
      ]);
      expect(answer.headers.get('location')).toBe(`/v1/pets/${id}`);
    }
  });
});

test('messages that are queued at the same time each get their own row', async () => {
  const text = (index: number) => `${['', '{"}', 'NULL', '\\', '🐈\n'][index % 5]} ${index}`;
  const answers = await together(
    service,
    'messages',
    numbered(100, (index) => () => queue(text(index))),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(202));
  const rows = await service.db.selectFrom('messages').selectAll().execute();
  const stored = new Map(
    rows.map(({ id, created_at, ...row }) => [`msg_${id}`, { ...row, createdAt: created_at.toISOString() }]),
  );
  expect(stored.size).toBe(100);
  for (const [index, { json }] of answers.entries()) {
    expect(json).toMatchObject({ message: text(index), status: 'queued' });
    const [id] = [...stored].find(([, { message }]) => message === text(index)) ?? [''];
    expect(json).toEqual({ id, ...stored.get(id) });
  }
});

test('requests at the same time get exactly what each gets when it is alone', async () => {
  await service.db.deleteFrom('pets').execute();
  const ids = (await seed(250)).map(({ id }) => id);
  const [lowest = 0n, highest = 0n] = [ids[0], ids.at(-1)];
  const cursors = [highest + 1n, highest, ids[200], ids[50], lowest, -5n].map((id) => encodeCursor(id ?? 0n));
  const request = fc.oneof(
    fc
      .record({
        limit: fc.constantFrom(
          '',
          'limit=1',
          'limit=2',
          'limit=19',
          'limit=20',
          'limit=99',
          'limit=100',
          'limit=0',
        ),
        status: fc.constantFrom('', '', 'status=available', 'status=pending', 'status=sold', 'status=gone'),
        cursor: fc.constantFrom('', '', ...cursors.map((cursor) => `cursor=${cursor}`), 'cursor=x'),
      })
      .map(({ limit, status, cursor }) => `/v1/pets?${[limit, status, cursor].filter(Boolean).join('&')}`),
    fc.constantFrom(...ids, highest + 1000n, -7n, 'x').map((id) => `/v1/pets/${id}`),
  );
  const ask = async (path: string) => {
    const { status, text, headers } = await service.request(path);
    return { path, status, text, link: headers.get('link'), type: headers.get('content-type') };
  };
  const alone = new Map<string, Awaited<ReturnType<typeof ask>>>();
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 2, maxLength: 80 }), async (paths) => {
      for (const path of paths) if (!alone.has(path)) alone.set(path, await ask(path));
      expect(await Promise.all(paths.map(ask))).toEqual(paths.map((path) => alone.get(path)));
    }),
    { numRuns: 25, endOnFailure: true },
  );
});

test('a read that begins after a 201 sees the animal, however many requests are under way', async () => {
  const client = async (number: number) => {
    for (let round = 0; round < 8; round++) {
      const created = await add(`client ${number}, round ${round}`);
      expect(created.status).toBe(201);
      const cursor = encodeCursor(idIn(created) + 1n);
      const [one, page] = await Promise.all([
        service.request(`/v1/pets/${idIn(created)}`),
        service.request(`/v1/pets?limit=1&cursor=${cursor}`),
      ]);
      expect([one.text, page.text]).toEqual([created.text, `[${created.text}]`]);
    }
  };
  await Promise.all(numbered(25, client));
});

test('a key that was revoked is refused from the next request on, while requests with other keys go on', async () => {
  const [revoked = '', ...others] = await Promise.all(numbered(4, () => newKey(service.db)));
  const id = (await findActiveKey(service.db, hashKey(revoked)))?.id ?? '';
  let isRevoked = false;
  let begunAfter = 0;
  const wrong: unknown[] = [];
  const client = async (number: number) => {
    const key = number % 2 === 0 ? revoked : (others[number % others.length] ?? '');
    while (begunAfter < 100) {
      const isRefused = key === revoked && isRevoked;
      if (isRefused) begunAfter++;
      const { status } = await service.request('/v1/pets?limit=1', { key });
      const isRight = isRefused ? status === 401 : status === 200 || (key === revoked && status === 401);
      if (!isRight) wrong.push({ status, isRefused, isOther: key !== revoked });
    }
  };
  const clients = numbered(30, client);
  await sleep(100);
  await revokeKey(service.db, id, 'test');
  isRevoked = true;
  await Promise.all(clients);
  expect(wrong).toEqual([]);
});

describe('data that the database refuses', () => {
  let strict: Service;
  beforeAll(async () => {
    strict = await startService();
    await sql`ALTER TABLE pets ADD CHECK (name <> 'poison')`.execute(strict.db);
    await sql`ALTER TABLE messages ADD CHECK (message <> 'poison')`.execute(strict.db);
  });
  afterAll(() => strict.stop());

  test.each([1, 30, 49])(
    'fails only its own request of 50 that add animals (number %i)',
    async (poisoned) => {
      await strict.db.deleteFrom('pets').execute();
      const names = numbered(50, (index) => (index === poisoned ? 'poison' : `pet ${index}`));
      const answers = await together(
        strict,
        'pets',
        names.map((name) => () => add(name, strict)),
      );
      for (const [index, { status, json }] of answers.entries()) {
        if (index === poisoned) expect(json).toEqual(internalError);
        else expect([status, json]).toMatchObject([201, { name: names[index] }]);
      }
      const good = names.filter((name) => name !== 'poison');
      expect((await namesIn(strict)).toSorted()).toEqual(good.toSorted());
    },
  );

  test('fails only its own request of 50 that queue messages', async () => {
    const texts = numbered(50, (index) => (index === 30 ? 'poison' : `message ${index}`));
    const answers = await together(
      strict,
      'messages',
      texts.map((text) => () => queue(text, strict)),
    );
    for (const [index, { status, json }] of answers.entries()) {
      if (index === 30) expect(json).toEqual(internalError);
      else expect([status, json]).toMatchObject([202, { message: texts[index] }]);
    }
    const stored = await strict.db.selectFrom('messages').select('message').execute();
    const good = texts.filter((text) => text !== 'poison');
    expect(stored.map(({ message }) => message).toSorted()).toEqual(good.toSorted());
  });
});

test('clients that leave while their requests wait with those of others disturb nobody', async () => {
  await service.db.deleteFrom('pets').execute();
  const ids = (await seed(90)).map(({ id }) => id);
  const headers = `Host: x\r\nAuthorization: Bearer ${service.key}\r\n`;
  const body = (index: number) => `{"name":"stays or leaves ${index}","categoryId":${index}}`;
  const bytes = (index: number) =>
    [
      `GET /v1/pets/${ids[index]} HTTP/1.1\r\n${headers}\r\n`,
      `GET /v1/pets?limit=1&cursor=${encodeCursor((ids[index] ?? 0n) + 1n)} HTTP/1.1\r\n${headers}\r\n`,
      `POST /v1/pets HTTP/1.1\r\n${headers}Content-Type: application/json\r\nContent-Length: ${body(index).length}\r\n\r\n${body(index)}`,
    ][index % 3] ?? '';
  const connections = ids.map(() => new RawConnection(service.port));
  const unlock = await gather(
    service,
    'pets',
    connections.map((connection, index) => () => connection.send(bytes(index))),
  );
  const leaves = (index: number) => (index * 7) % 5 < 2;
  for (const [index, connection] of connections.entries()) {
    if (leaves(index) && index % 2 === 0) connection.destroy();
    else if (leaves(index)) connection.reset();
  }
  await sleep(20);
  await unlock();
  for (const [index, connection] of connections.entries()) {
    if (leaves(index)) continue;
    const [answer] = await connection.answers(1);
    const own = `"id":${ids[index]},"name":"seed ${index}"`;
    if (index % 3 === 2)
      expect([answer?.status, answer?.body]).toEqual([201, expect.stringContaining(body(index).slice(1))]);
    else expect([answer?.status, answer?.body]).toEqual([200, expect.stringContaining(own)]);
    connection.destroy();
  }
  const names = (await namesIn(service)).filter((name) => name.startsWith('stays'));
  expect(new Set(names).size).toBe(names.length);
  expect((await service.request('/health/ready')).status).toBe(200);
  expect((await service.request('/v1/pets?limit=100')).status).toBe(200);
  expect((await add('after')).status).toBe(201);
});

describe('when the connection breaks under a statement that many requests share', () => {
  /** What breaks earlier is read again. */
  const LONGER_THAN_QUICK_MS = 150;

  /** Ends the connections whose statements are held up. */
  const breakHeldUp = (databaseUrl: string) =>
    inDatabase(databaseUrl, (client) =>
      client.query(`
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`),
    );

  /** The answers of all requests but the first, whose connections broke once. */
  async function breakTogether(table: 'pets' | 'messages', requests: readonly (() => Promise<Answer>)[]) {
    const answers: Promise<Answer>[] = [];
    const unlock = await gather(
      service,
      table,
      requests.map((request) => () => answers.push(request())),
    );
    await sleep(LONGER_THAN_QUICK_MS);
    await breakHeldUp(service.databaseUrl); // that of the first request
    await answers[0];
    await expect.poll(() => statementsHeldUp(service.databaseUrl), { interval: 10 }).toBe(1);
    await sleep(LONGER_THAN_QUICK_MS);
    await breakHeldUp(service.databaseUrl);
    const broken = await Promise.all(answers);
    await unlock();
    return broken;
  }

  test.each([
    ['animals', 'pets', (name: string) => add(name)],
    ['messages', 'messages', (name: string) => queue(name)],
  ] as const)(
    '503 outcome_unknown for all that add %s, and nothing is stored twice',
    async (_what, table, write) => {
      await service.db.deleteFrom('pets').execute();
      await service.db.deleteFrom('messages').execute();
      const names = numbered(40, (index) => `${table} ${index}`);
      const answers = await breakTogether(
        table,
        names.map((name) => () => write(name)),
      );
      expect(answers.map(({ json }) => json)).toEqual(Array(40).fill(outcomeUnknown));
      await sleep(100); // for what would be sent again
      const messages = await service.db.selectFrom('messages').select('message').execute();
      const stored = [...(await namesIn(service)), ...messages.map(({ message }) => message)];
      expect(new Set(stored).size).toBe(stored.length);
      expect((await write('after')).status).toBeLessThan(300);
    },
  );

  test.each(['/v1/pets', '/v1/pets/1'])('503 unavailable for all that read %s', async (path) => {
    const answers = await breakTogether(
      'pets',
      numbered(40, () => () => service.request(path)),
    );
    expect(answers.map(({ json }) => json)).toEqual(Array(40).fill(unavailable));
    expect((await service.request('/v1/pets')).status).toBe(200);
  });
});

describe('500 requests at the same time', () => {
  let proxy: DatabaseProxy;
  let observed: Service;
  beforeAll(async () => {
    proxy = await DatabaseProxy.start(await createDatabase());
    observed = await startService({ databaseUrl: proxy.url });
  });
  afterAll(async () => {
    await observed.stop();
    await proxy.goAway();
  });

  test.each([
    ['get an animal', (index: number) => observed.request(`/v1/pets/${index}`)],
    ['list animals', (index: number) => observed.request(`/v1/pets?limit=${(index % 100) + 1}`)],
    ['add an animal', (index: number) => add(`pet ${index}`, observed)],
  ])(
    'that %s need three statements, and far fewer than 500 to look up their keys',
    async (_what, request) => {
      const before = proxy.sent.length;
      await together(
        { databaseUrl: proxy.target },
        'pets',
        numbered(500, (index) => () => request(index)),
      );
      const sent = proxy.sent.slice(before).map(({ text }) => text);
      expect(sent.filter((text) => /\bpets"?\b/.test(text))).toHaveLength(3);
      expect(sent.filter((text) => /^\s*select .*\bapi_keys\b/is.test(text)).length).toBeLessThan(250);
    },
  );
});
