import { sql } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { createDatabase } from './support/database.ts';
import { DatabaseProxy } from './support/proxy.ts';
import { type Service, startService } from './support/service.ts';

let service: Service;
afterEach(() => service.stop());

const health = (path: string) => service.request(`/health/${path}`, { key: null });

test('live and ready answer without a key', async () => {
  service = await startService();
  expect(await health('live')).toMatchObject({ status: 200, json: { status: 'live' } });
  expect(await health('ready')).toMatchObject({ status: 200, json: { status: 'ready' } });
});

test('while the database is away it is live, not ready, and answers 503 with Retry-After; then it is back', async () => {
  const proxy = await DatabaseProxy.start(await createDatabase());
  service = await startService({ databaseUrl: proxy.url });
  const requests = [
    () => health('ready'),
    () => service.request('/v1/pets'),
    () => service.request('/v1/pets/1'),
    () => service.request('/v1/pets', { body: { name: 'a', categoryId: 1 } }),
    () => service.request('/quickstart/messages', { body: { message: 'a' } }),
  ];

  await proxy.goAway();
  for (const request of requests) {
    const { json, headers } = await request();
    expect(json).toEqual({ code: 'unavailable', message: expect.any(String), status: 503 });
    expect(headers.get('retry-after')).toMatch(/^\d+$/);
  }
  expect((await health('live')).status).toBe(200);

  await proxy.comeBack();
  for (const request of requests) expect((await request()).status).toBeLessThan(405);
  await service.stop();
  await proxy.goAway();
});

test('it is not ready while the schema lacks a migration; one that the next release has run is no harm', async () => {
  service = await startService();
  await sql`DELETE FROM kysely_migration WHERE name = '0001_initial'`.execute(service.db);
  expect((await health('ready')).json).toMatchObject({ code: 'unavailable', status: 503 });
  expect((await health('live')).status).toBe(200);
  await sql`INSERT INTO kysely_migration VALUES ('0001_initial', 'now'), ('9999_later', 'now')`.execute(
    service.db,
  );
  expect((await health('ready')).status).toBe(200);
});

test('it is not ready while draining', async () => {
  service = await startService({ config: { shutdownPauseMs: 500 } });
  const stopped = service.stop();
  const ready = await health('ready');
  expect(ready.json).toEqual({ code: 'unavailable', message: expect.any(String), status: 503 });
  expect((await health('live')).status).toBe(200);
  await stopped;
});
