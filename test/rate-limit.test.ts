import { afterEach, expect, test } from 'vitest';
import { type Answer, newKey, type Service, startService } from './support/service.ts';

let service: Service;
afterEach(() => service.stop());

const list = (key = service.key) => service.request('/v1/pets', { key });
const rateHeaders = ({ headers }: Answer) =>
  Object.fromEntries([...headers].filter(([name]) => /^ratelimit|^retry-after/.test(name)));
const seconds = expect.stringMatching(/^([1-9]|[1-5]\d|60)$/);

test('with RATE_LIMIT_PER_MINUTE a key may make so many requests; each answer tells what is left', async () => {
  service = await startService({ config: { rateLimitPerMinute: 3 } });
  for (const left of [2, 1, 0]) {
    const answer = await list();
    expect(answer.status).toBe(200);
    expect(rateHeaders(answer)).toEqual({
      'ratelimit-limit': '3',
      'ratelimit-remaining': `${left}`,
      'ratelimit-reset': seconds,
    });
  }
  const refused = await list();
  expect([refused.status, refused.json]).toEqual([
    429,
    { code: 'rate_limited', message: expect.stringContaining('3 requests a minute'), status: 429 },
  ]);
  expect(rateHeaders(refused)).toEqual({
    'ratelimit-limit': '3',
    'ratelimit-remaining': '0',
    'ratelimit-reset': seconds,
    'retry-after': seconds,
  });
});

test('every request with the key counts, on whatever address, and nothing is done for one that is refused', async () => {
  service = await startService({ config: { rateLimitPerMinute: 3 } });
  const create = () => service.request('/v1/pets', { body: { name: 'counted', categoryId: 1 } });
  const answers = [
    await service.request('/v1/nowhere'),
    await service.request('/quickstart/messages', { body: {} }),
    await create(),
    await create(),
  ];
  expect(answers.map(({ status }) => status)).toEqual([404, 400, 201, 429]);
  expect(await service.db.selectFrom('pets').selectAll().execute()).toHaveLength(1);
});

test('a refusal of the deprecated operation announces its end, like all of its answers', async () => {
  service = await startService({ config: { rateLimitPerMinute: 1 } });
  await list();
  const { status, headers } = await service.request('/v1/pets/1');
  expect(status).toBe(429);
  for (const name of ['deprecation', 'sunset', 'link']) expect(headers.get(name)).not.toBeNull();
});

test('each key counts for itself; a bad key and health do not count', async () => {
  service = await startService({ config: { rateLimitPerMinute: 1 } });
  const other = await newKey(service.db);
  const statuses = [];
  for (const key of [service.key, other, service.key, other, 'bad', 'bad']) {
    statuses.push((await list(key)).status);
  }
  expect(statuses).toEqual([200, 200, 429, 429, 401, 401]);
  for (let probe = 0; probe < 3; probe++) {
    expect((await service.request('/health/ready', { key: null })).status).toBe(200);
  }
});

test('it holds per process: another replica counts for itself', async () => {
  service = await startService({ config: { rateLimitPerMinute: 1 } });
  const replica = await startService({
    databaseUrl: service.databaseUrl,
    config: { rateLimitPerMinute: 1 },
  });
  expect((await list()).status).toBe(200);
  expect((await list()).status).toBe(429);
  expect((await replica.request('/v1/pets')).status).toBe(200);
  await replica.stop();
});

test('without it there is no limit, and no header speaks of one', async () => {
  service = await startService();
  const answers = await Promise.all(Array.from({ length: 200 }, () => list()));
  for (const answer of answers) {
    expect(answer.status).toBe(200);
    expect(rateHeaders(answer)).toEqual({});
  }
});
