import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Service, startService } from './support/service.ts';

const ORIGIN = 'https://app.example.com';
const preflight = {
  method: 'OPTIONS',
  key: null,
  headers: {
    origin: ORIGIN,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  },
};

describe('without CORS_ORIGINS', () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());

  test('a preflight is 401 without a key and 405 with one', async () => {
    expect((await service.request('/v1/pets', preflight)).status).toBe(401);
    expect((await service.request('/v1/pets', { ...preflight, key: service.key })).status).toBe(405);
  });

  test('no answer has CORS headers', async () => {
    const { headers } = await service.request('/v1/pets', { headers: { origin: ORIGIN } });
    expect([...headers.keys()].filter((name) => /^access-control|^vary/.test(name))).toEqual([]);
  });
});

describe('with CORS_ORIGINS', () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ config: { corsOrigins: ['http://localhost:8080', ORIGIN] } });
  });
  afterAll(() => service.stop());

  test('a preflight of a listed origin is answered without a key', async () => {
    const { status, headers, text } = await service.request('/v1/pets', preflight);
    expect([status, text]).toEqual([204, '']);
    expect(headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(headers.get('access-control-allow-methods')).toBe('GET, HEAD, POST');
    expect(headers.get('access-control-allow-headers')).toMatch(
      /Authorization.*Content-Type.*Idempotency-Key/,
    );
    expect(headers.get('vary')).toBe('Origin');
  });

  test.each([
    ['an answer', '/v1/pets', undefined, 200],
    ['an error', '/v1/pets?limit=0', undefined, 400],
    ['a refusal', '/v1/pets', null, 401],
  ])('%s exposes what clients need to read', async (_what, path, key, status) => {
    const answer = await service.request(path, { headers: { origin: ORIGIN }, ...(key === null && { key }) });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(answer.headers.get('access-control-expose-headers')?.split(', ')).toEqual(
      expect.arrayContaining(['Link', 'Location', 'Deprecation', 'Sunset', 'Retry-After', 'x-request-id']),
    );
  });

  test('another origin gets neither a preflight nor permission', async () => {
    const headers = { ...preflight.headers, origin: 'https://evil.example.com' };
    const refused = await service.request('/v1/pets', { ...preflight, headers });
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, null]);
    const answered = await service.request('/v1/pets', { headers: { origin: headers.origin } });
    expect([answered.status, answered.headers.get('access-control-allow-origin')]).toEqual([200, null]);
  });

  test('OPTIONS that is no preflight is 405 as ever', async () => {
    expect(
      (await service.request('/v1/pets', { method: 'OPTIONS', headers: { origin: ORIGIN } })).status,
    ).toBe(405);
  });
});
