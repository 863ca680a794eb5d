import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Service, startService } from './support/service.ts';

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const create = (body: unknown, headers?: Record<string, string>) =>
  service.request('/v1/pets', { body, ...(headers && { headers }) });

describe('POST /v1/pets adds an animal', () => {
  test('answers 201 with the Pet, its assigned id, and its Location', async () => {
    const { status, headers, json } = await create({ name: 'Mittens', categoryId: 7, status: 'available' });
    expect(status).toBe(201);
    expect(headers.get('content-type')).toMatch(/^application\/json\b/);
    expect(json).toEqual({ id: expect.any(Number), name: 'Mittens', categoryId: 7, status: 'available' });
    const { id } = json as { id: number };
    expect(headers.get('location')).toBe(`/v1/pets/${id}`);
    expect((await service.request(`/v1/pets/${id}`)).json).toEqual(json);
  });

  test('leaves a status that was not given out of the answer and stores NULL', async () => {
    const { text } = await create({ name: 'Nobody', categoryId: 1 });
    expect(text).toMatch(/^{"id":\d+,"name":"Nobody","categoryId":1}$/);
    const row = await service.db
      .selectFrom('pets')
      .select('status')
      .where('name', '=', 'Nobody')
      .executeTakeFirstOrThrow();
    expect(row.status).toBeNull();
  });

  test.each(['available', 'pending', 'sold'])('takes the status %s', async (status) => {
    expect((await create({ name: 'a', categoryId: 1, status })).json).toMatchObject({ status });
  });

  test.each([
    ['9007199254740993', '9007199254740993'],
    ['9223372036854775807', '9223372036854775807'],
    ['-9223372036854775808', '-9223372036854775808'],
    ['-9007199254740993', '-9007199254740993'],
    ['0', '0'],
    ['-0', '0'],
    ['1.0', '1'],
    ['1e3', '1000'],
    ['12.50e1', '125'],
    ['9223372036854775807.000', '9223372036854775807'],
    ['0.9223372036854775807E19', '9223372036854775807'],
    ['-0.0e99999999999', '0'],
  ])('takes the categoryId %s exactly, as %s', async (token, digits) => {
    const { status, text } = await create(`{"name":"exact","categoryId":${token}}`);
    expect([status, text]).toEqual([201, expect.stringContaining(`"categoryId":${digits}}`)]);
    const [, id] = /"id":(\d+)/.exec(text) ?? [];
    expect((await service.request(`/v1/pets/${id}`)).text).toBe(text);
    expect((await service.request('/v1/pets?limit=1')).text).toBe(`[${text}]`);
  });

  test('hands out ids beyond 2^53 digit for digit', async () => {
    const { id } = await service.db
      .insertInto('pets')
      .values({ id: 9007199254740993n, name: 'far', category_id: 1n, status: null })
      .returning('id')
      .executeTakeFirstOrThrow();
    expect((await service.request(`/v1/pets/${id}`)).text).toBe(
      '{"id":9007199254740993,"name":"far","categoryId":1}',
    );
    await service.db.deleteFrom('pets').where('id', '=', id).execute();
  });

  test.each([
    ['1.5', 'categoryId'],
    ['4503599627370497.5', 'categoryId'],
    ['9223372036854775808', 'categoryId'],
    ['-9223372036854775809', 'categoryId'],
    ['1e19', 'categoryId'],
    ['1e400', 'categoryId'],
    ['1e-1', 'categoryId'],
    ['"7"', 'categoryId'],
    ['null', 'categoryId'],
    ['true', 'categoryId'],
    ['[7]', 'categoryId'],
    ['{}', 'categoryId'],
  ])('refuses the categoryId %s with 400, naming the field', async (token, field) => {
    const { status, json } = await create(`{"name":"a","categoryId":${token}}`);
    expect(status).toBe(400);
    expect(json).toEqual({ code: 'invalid_request', message: expect.stringContaining(field), status: 400 });
  });

  test.each([
    ['a missing name', { categoryId: 1 }, 'name is required'],
    ['a missing categoryId', { name: 'a' }, 'categoryId is required'],
    ['a number as name', { name: 123, categoryId: 1 }, 'name must be a string'],
    ['null as name', { name: null, categoryId: 1 }, 'name must be a string'],
    ['an unknown status', { name: 'a', categoryId: 1, status: 'gone' }, 'status must be one of'],
    ['null as status', { name: 'a', categoryId: 1, status: null }, 'status must be one of'],
    ['a status in capitals', { name: 'a', categoryId: 1, status: 'SOLD' }, 'status must be one of'],
    ['an array as name', { name: ['a'], categoryId: 1 }, 'name must be a string'],
    ['an array as categoryId', { name: 'a', categoryId: [1] }, 'categoryId must be an integer'],
    ['an array', [], 'The body must be a JSON object'],
    ['a string', '"a"', 'The body must be a JSON object'],
    ['null', 'null', 'The body must be a JSON object'],
    ['a number', '5', 'The body must be a JSON object'],
  ])('refuses %s with 400', async (_what, body, message) => {
    const { status, json } = await create(body);
    expect(status).toBe(400);
    expect(json).toEqual({ code: 'invalid_request', message: expect.stringContaining(message), status: 400 });
  });

  test('names every violation of a body at once', async () => {
    const { json } = await create({ name: 1, status: 'x' });
    expect(json).toMatchObject({ message: expect.stringMatching(/categoryId .*name .*status /) });
  });

  test('ignores unknown members, and never stores an id of the body', async () => {
    const { status, text } = await create(
      '{"id":999999999,"name":"a","categoryId":1,"extra":{"deep":[1e999]},"__proto__":{"status":"sold"},"constructor":{"prototype":1}}',
    );
    expect(status).toBe(201);
    expect(text).toMatch(/^{"id":\d{1,6},"name":"a","categoryId":1}$/);
  });

  test.each([
    ['empty', ''],
    ['of 1,000 characters', 'a'.repeat(1000)],
    ['of 1,000 code points beyond the BMP', '🐈'.repeat(1000)],
    ['with control characters, quotes and U+2028', '\u0001\t\r\n"\\/\u2028\u007f\u0085\ufeff'],
    ['with combining and non-characters', 'e\u0301\ufffe\uffff\ufffd'],
  ])('keeps a name %s faithfully', async (_what, name) => {
    const { status, json } = await create({ name, categoryId: 1 });
    expect([status, json]).toEqual([201, expect.objectContaining({ name })]);
    expect((await service.request('/v1/pets?limit=1')).json).toEqual([json]);
  });

  test.each([
    ['of 1,001 characters', JSON.stringify('a'.repeat(1001))],
    ['of 1,001 code points beyond the BMP', JSON.stringify('🐈'.repeat(1001))],
    ['with NUL', '"a\\u0000b"'],
    ['with a lone high surrogate', '"\\ud83d"'],
    ['with a lone low surrogate', '"\\ude00x"'],
  ])('refuses a name %s with 400', async (_what, name) => {
    const { status, json } = await create(`{"name":${name},"categoryId":1}`);
    expect([status, json]).toEqual([
      400,
      expect.objectContaining({ message: expect.stringMatching(/^name must/) }),
    ]);
  });

  test.each([
    ['no JSON', '{"name":'],
    ['empty', ''],
    ['nested 30,000 deep', '['.repeat(30_000) + ']'.repeat(30_000)],
    ['not UTF-8', Buffer.from('{"name":"\xff","categoryId":1}', 'latin1')],
    ['an overlong encoding', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['a CESU-8 surrogate', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['JSON with a comment', '{"name":"a"/**/,"categoryId":1}'],
    ['a number with leading zeros', '{"name":"a","categoryId":01}'],
  ])('refuses a body that is %s as malformed_json', async (_what, body) => {
    expect((await create(body)).json).toEqual({
      code: 'malformed_json',
      message: expect.any(String),
      status: 400,
    });
  });

  test('reads a body that comes in chunks split inside a character', async () => {
    const bytes = Buffer.from('{"name":"ö🐈","categoryId":1}');
    const chunks = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const response = await fetch(`${service.origin}/v1/pets`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
      body: chunks,
      duplex: 'half',
    });
    expect(await response.json()).toMatchObject({ name: 'ö🐈' });
  });

  test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON;Charset="UTF-8"'])(
    'takes the Content-Type %s',
    async (type) => {
      expect((await create({ name: 'a', categoryId: 1 }, { 'content-type': type })).status).toBe(201);
    },
  );

  test.each([
    'text/plain',
    'application/jsonp',
    'application/merge-patch+json',
    'application/x-www-form-urlencoded',
    'application/json; charset=iso-8859-1',
    'json',
  ])('refuses the Content-Type %s with 415', async (type) => {
    const { status, json } = await create({ name: 'a', categoryId: 1 }, { 'content-type': type });
    expect(status).toBe(415);
    expect(json).toMatchObject({ code: 'unsupported_media_type', status: 415 });
  });

  test('refuses a content encoding with 415', async () => {
    const { json } = await create({ name: 'a', categoryId: 1 }, { 'content-encoding': 'gzip' });
    expect(json).toMatchObject({ code: 'unsupported_media_type', status: 415 });
  });

  test('takes a body of 64 KiB and refuses one byte more with 413', async () => {
    const bodyOf = (length: number) => {
      const rest = '{"name":"a","categoryId":1,"padding":""}';
      return rest.replace('""', `"${'x'.repeat(length - rest.length)}"`);
    };
    expect((await create(bodyOf(65_536))).status).toBe(201);
    expect((await create(bodyOf(65_537))).json).toMatchObject({ code: 'payload_too_large', status: 413 });
  });

  test('gives concurrent requests each their own answer', async () => {
    const names = Array.from({ length: 300 }, (_, index) => `concurrent ${index}`);
    const answers = await Promise.all(
      names.map((name, index) => create({ name, categoryId: index, status: index % 2 ? 'sold' : 'pending' })),
    );
    answers.forEach(({ status, json }, index) => {
      expect(status).toBe(201);
      expect(json).toMatchObject({
        name: names[index],
        categoryId: index,
        status: index % 2 ? 'sold' : 'pending',
      });
    });
    expect(new Set(answers.map(({ json }) => (json as { id: number }).id)).size).toBe(300);
  });

  test('has committed what it answered 201 to', async () => {
    const { json } = await create({ name: 'durable', categoryId: 1 });
    const other = await service.db.selectFrom('pets').selectAll().where('name', '=', 'durable').execute();
    expect(other.map(({ id }) => Number(id))).toEqual([(json as { id: number }).id]);
  });
});
