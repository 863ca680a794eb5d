import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Service, startService } from './support/service.ts';

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const post = (body: unknown, headers = {}) => service.request('/quickstart/messages', { body, headers });

describe('POST /quickstart/messages queues a message', () => {
  test('answers 202 with id, message, status and createdAt', async () => {
    const begun = Date.now();
    const { status, json } = await post({ message: 'Hello, wörld 🐈' });
    expect(status).toBe(202);
    expect(json).toEqual({
      id: expect.stringMatching(/^msg_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      message: 'Hello, wörld 🐈',
      status: 'queued',
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    const createdAt = Date.parse((json as { createdAt: string }).createdAt);
    expect(Math.abs(createdAt - begun)).toBeLessThan(5000);
  });

  test('stores it durably, as it was answered', async () => {
    const { json } = await post({ message: 'stored' });
    const answered = json as { id: string; createdAt: string };
    const row = await service.db
      .selectFrom('messages')
      .selectAll()
      .where('id', '=', answered.id.replace('msg_', ''))
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ message: 'stored', status: 'queued' });
    expect(row.created_at.toISOString()).toBe(answered.createdAt);
  });

  test.each(['', 'x'.repeat(5000), '🐈'.repeat(5000)])(
    'keeps a message of any length up to 5,000',
    async (message) => {
      expect((await post({ message })).json).toMatchObject({ message });
    },
  );

  test.each([
    ['without message', '{}', 'message is required'],
    ['of a number', '{"message":1}', 'message must'],
    ['of null', '{"message":null}', 'message must'],
    ['of 5,001 characters', JSON.stringify({ message: '🐈'.repeat(5001) }), 'message must'],
    ['with NUL', '{"message":"\\u0000"}', 'message must'],
    ['with a lone surrogate', '{"message":"\\udfff"}', 'message must'],
  ])('refuses a body %s with 400', async (_what, body, message) => {
    expect((await post(body)).json).toEqual({
      code: 'invalid_request',
      message: expect.stringContaining(message),
      status: 400,
    });
  });

  test('refuses invalid JSON with 400', async () => {
    expect((await post('{"message":')).json).toMatchObject({ code: 'malformed_json', status: 400 });
  });

  test('refuses a missing Content-Type with 400', async () => {
    expect((await post('{"message":"a"}', { 'content-type': '' })).json).toEqual({
      code: 'invalid_request',
      message: expect.stringContaining('Content-Type'),
      status: 400,
    });
  });

  test('asks for a key before anything else', async () => {
    const answer = await service.request('/quickstart/messages', { body: '{"message":', key: null });
    expect(answer.json).toMatchObject({ code: 'missing_api_key', status: 401 });
  });
});
