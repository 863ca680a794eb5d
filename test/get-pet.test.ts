import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { lockTable } from './support/database.ts';
import { type Answer, type Service, startService } from './support/service.ts';

let now = new Date('2026-11-21T00:00:00Z');
let service: Service;
let petId: number;

beforeAll(async () => {
  service = await startService({ clock: () => now });
  const { json } = await service.request('/v1/pets', { body: { name: 'Mittens', categoryId: 7 } });
  petId = (json as { id: number }).id;
});
afterAll(() => service.stop());

const expectDeprecationHeaders = ({ headers }: Answer) => {
  expect(headers.get('deprecation')).toBe('@1795132800');
  expect(headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
  expect(headers.get('link')).toMatch(/<[^>]+>; rel="deprecation"/);
  expect(headers.get('link')).toContain('</v1/pets>; rel="successor-version"');
};

describe('GET /v1/pets/{petId} gets an animal', () => {
  test('answers 200 with the Pet', async () => {
    const answer = await service.request(`/v1/pets/${petId}`);
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({ id: petId, name: 'Mittens', categoryId: 7 });
    expectDeprecationHeaders(answer);
  });

  test('answers HEAD with the same headers and no body', async () => {
    const answer = await service.request(`/v1/pets/${petId}`, { method: 'HEAD' });
    expect([answer.status, answer.text]).toEqual([200, '']);
    expectDeprecationHeaders(answer);
  });

  test.each([
    ...['0', '-1', '999999999', '9007199254740993', '9223372036854775807', '-9223372036854775808'],
    ...[
      '9223372036854775808',
      '-9223372036854775809',
      '01',
      '+1',
      '1.0',
      '1e0',
      '0x1',
      '-0',
      'abc',
      '%20',
      '1%00',
      '１',
    ],
    '1'.repeat(10_000),
  ])('answers 404 for the petId %s', async (id) => {
    const answer = await service.request(`/v1/pets/${id}`);
    expect(answer.json).toEqual({ code: 'pet_not_found', message: expect.any(String), status: 404 });
    expectDeprecationHeaders(answer);
  });

  test.each(['-1', '-9223372036854775808', '9223372036854775807'])(
    'finds the animal with the id %s',
    async (id) => {
      const pet = { id: BigInt(id), name: 'edge', category_id: BigInt(id), status: null };
      await service.db.insertInto('pets').values(pet).execute();
      const { text } = await service.request(`/v1/pets/${id}`);
      expect(text).toBe(`{"id":${id},"name":"edge","categoryId":${id}}`);
      await service.db.deleteFrom('pets').where('id', '=', pet.id).execute();
    },
  );

  test('announces its end also where the service fails', async () => {
    const impatient = await startService({
      databaseUrl: service.databaseUrl,
      config: { requestDeadlineMs: 1000 },
    });
    const unlock = await lockTable(service.databaseUrl, 'pets');
    const answer = await impatient.request(`/v1/pets/${petId}`);
    await unlock();
    expect(answer.status).toBe(503);
    expectDeprecationHeaders(answer);
    await impatient.stop();
  });

  test('announces nothing without a good key', async () => {
    const { status, headers } = await service.request(`/v1/pets/${petId}`, { key: null });
    expect(status).toBe(401);
    for (const name of ['deprecation', 'sunset', 'link']) expect(headers.get(name)).toBeNull();
  });
});

describe('from 2030-12-05T00:00:00Z on it is removed', () => {
  test('the last moment before still answers', async () => {
    now = new Date('2030-12-04T23:59:59.999Z');
    expect((await service.request(`/v1/pets/${petId}`)).status).toBe(200);
  });

  test.each(['1', 'abc', '9223372036854775808'])('answers 410 for the petId %s', async (id) => {
    now = new Date('2030-12-05T00:00:00Z');
    const answer = await service.request(`/v1/pets/${id}`);
    expect(answer.json).toEqual({ code: 'operation_removed', message: expect.any(String), status: 410 });
    expectDeprecationHeaders(answer);
  });

  test('401 still comes first', async () => {
    now = new Date('2031-01-01T00:00:00Z');
    expect((await service.request(`/v1/pets/${petId}`, { key: null })).status).toBe(401);
  });

  test('POST /v1/pets names no Location any more', async () => {
    now = new Date('2031-01-01T00:00:00Z');
    const { status, headers } = await service.request('/v1/pets', { body: { name: 'a', categoryId: 1 } });
    expect([status, headers.get('location')]).toEqual([201, null]);
  });
});
