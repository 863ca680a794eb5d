import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, type Service, startService } from './support/service.ts';

interface ListedPet {
  id: number;
  name: string;
  categoryId: number;
  status?: string;
}

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(() => service.db.deleteFrom('pets').execute());

const STATUSES = ['available', 'pending', 'sold', null] as const;

/** Adds animals whose statuses take turns: available, pending, sold, none. */
async function addPets(count: number): Promise<void> {
  const pets = Array.from({ length: count }, (_, index) => ({
    name: `pet ${index}`,
    category_id: BigInt(index),
    status: STATUSES[index % STATUSES.length] ?? null,
  }));
  await service.db.insertInto('pets').values(pets).execute();
}

const list = (query = '') => service.request(`/v1/pets${query}`);
const petsOf = ({ json }: Answer) => json as ListedPet[];
const ids = (pets: ListedPet[]) => pets.map(({ id }) => id);
const nextOf = ({ headers }: Answer) => /^<(\?[^>]*)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1];

/** Follows `Link` to the end. */
async function walk(query: string, onPage: () => Promise<unknown> = async () => {}): Promise<ListedPet[][]> {
  const pages: ListedPet[][] = [];
  for (let next: string | undefined = query; next !== undefined; ) {
    const answer: Answer = await list(next);
    expect(answer.status).toBe(200);
    pages.push(petsOf(answer));
    next = nextOf(answer);
    await onPage();
  }
  return pages;
}

describe('GET /v1/pets lists animals', () => {
  test('answers an empty store with a bare empty array and no Link', async () => {
    const { status, headers, text } = await list();
    expect([status, text, headers.get('link')]).toEqual([200, '[]', null]);
    expect(headers.get('content-type')).toMatch(/^application\/json\b/);
  });

  test('gives the newest first, so that what was just added is on the first page', async () => {
    await addPets(30);
    const { json: added } = await service.request('/v1/pets', { body: { name: 'new', categoryId: 1 } });
    const pets = petsOf(await list());
    expect(pets[0]).toEqual(added);
    expect(ids(pets)).toEqual(ids(pets).toSorted((a, b) => b - a));
  });

  test('gives 20 animals where no limit is given', async () => {
    await addPets(21);
    expect(petsOf(await list())).toHaveLength(20);
  });

  test.each([1, 2, 99, 100])('gives as many as limit=%i asks for', async (limit) => {
    await addPets(101);
    expect(petsOf(await list(`?limit=${limit}`))).toHaveLength(limit);
  });

  test.each(['available', 'pending', 'sold'])('filters by status=%s', async (status) => {
    await addPets(40);
    const pets = petsOf(await list(`?status=${status}`));
    expect(pets).toHaveLength(10);
    expect(new Set(pets.map((pet) => pet.status))).toEqual(new Set([status]));
  });

  test('shows an animal without status in no filter, and without the member', async () => {
    await service.db.insertInto('pets').values({ name: 'n', category_id: 1n, status: null }).execute();
    expect((await list()).text).toMatch(/^\[{"id":\d+,"name":"n","categoryId":1}\]$/);
    for (const status of ['available', 'pending', 'sold']) {
      expect((await list(`?status=${status}`)).text).toBe('[]');
    }
  });

  test('ignores unknown query names, even repeated ones', async () => {
    await addPets(1);
    const { status } = await list('?offset=5&page=2&page=3&__proto__=1&toString=2');
    expect(status).toBe(200);
  });

  test.each([
    ...[
      '0',
      '-1',
      '101',
      '1e1',
      '0x10',
      '+5',
      '%2B5',
      '5.0',
      '05',
      '',
      ' 5',
      '5%20',
      'ten',
      '1000000000000000000000',
    ],
    ...['5&limit=5', '5&limit=', '%00', '%ff', '５'],
  ])('refuses limit=%s with 400, naming the field, and clamps nothing', async (limit) => {
    const { status, json } = await list(`?limit=${limit}`);
    expect(status).toBe(400);
    expect(json).toEqual({
      code: 'invalid_request',
      message: expect.stringMatching(/^limit must/),
      status: 400,
    });
  });

  test.each(['', 'gone', 'SOLD', 'sold&status=sold', 'sold,pending', 'null', ' sold'])(
    'refuses status=%s with 400, naming the field',
    async (status) => {
      const answer = await list(`?status=${status}`);
      expect(answer.json).toEqual({
        code: 'invalid_request',
        message: expect.stringMatching(/^status must/),
        status: 400,
      });
    },
  );

  test('takes percent-encoded names and values', async () => {
    await addPets(3);
    expect(petsOf(await list('?%6Cimit=%32'))).toHaveLength(2);
  });
});

describe('Link leads to the next page', () => {
  test('it is a query with the limit, the status where one was given, and a cursor', async () => {
    await addPets(100);
    const [plain, filtered] = [await list(), await list('?status=sold&limit=7&other=1')].map(
      (answer) => new URLSearchParams(nextOf(answer)),
    );
    expect([...(plain?.keys() ?? [])]).toEqual(['limit', 'cursor']);
    expect(plain?.get('limit')).toBe('20');
    expect([...(filtered?.keys() ?? [])]).toEqual(['limit', 'status', 'cursor']);
    expect(filtered?.get('limit')).toBe('7');
    expect(filtered?.get('status')).toBe('sold');
  });

  test('it is absent on the last page, also where that is full', async () => {
    await addPets(40);
    const pages = await walk('?limit=20');
    expect(pages.map((page) => page.length)).toEqual([20, 20]);
  });

  test.each(['', '&status=available', '&status=pending', '&status=sold'])(
    'the walk with limit=7%s gives every animal once, in order',
    async (filter) => {
      await addPets(101);
      const walked = (await walk(`?limit=7${filter}`)).flat();
      const expected = await service.db
        .selectFrom('pets')
        .select('id')
        .$if(filter !== '', (query) => query.where('status', '=', filter.split('=')[1] as 'sold'))
        .orderBy('id', 'desc')
        .execute();
      expect(ids(walked)).toEqual(expected.map(({ id }) => Number(id)));
    },
  );

  test('the walk misses nothing and repeats nothing while others insert', async () => {
    await addPets(60);
    const before = ids((await walk('?limit=100')).flat());
    const walked = await walk('?limit=9', () => addPets(4));
    expect(ids(walked.flat())).toEqual(before);
  });

  test('works at both ends of int64', async () => {
    const edge = [9223372036854775807n, 9223372036854775806n, 0n, -1n, -9223372036854775808n];
    const pets = edge.map((id) => ({ id, name: 'edge', category_id: 1n, status: 'sold' as const }));
    await service.db.insertInto('pets').values(pets).execute();
    for (const query of ['?limit=1', '?limit=1&status=sold']) {
      const texts: string[] = [];
      for (let next: string | undefined = query; next !== undefined; ) {
        const answer: Answer = await list(next);
        texts.push(answer.text);
        next = nextOf(answer);
      }
      expect(texts.map((text) => /"id":(-?\d+)/.exec(text)?.[1])).toEqual(edge.map(String));
    }
  });

  test.each([
    '',
    'x',
    'abc',
    '123',
    'bm90IGEgY3Vyc29y',
    'YmVmb3JlOjE=',
    'YmVmb3JlOjF',
    'YmVmb3JlOjAx',
    '%00',
    'ä',
  ])('refuses the cursor %j with 400 invalid_cursor', async (cursor) => {
    expect((await list(`?cursor=${cursor}`)).json).toEqual({
      code: 'invalid_cursor',
      message: expect.any(String),
      status: 400,
    });
  });

  test('refuses a cursor that was cut short or added to', async () => {
    await addPets(3);
    const cursor = new URLSearchParams(nextOf(await list('?limit=1'))).get('cursor') ?? '';
    for (const bad of [cursor.slice(0, -1), cursor.slice(1), `${cursor}A`, `${cursor}=`, ` ${cursor}`]) {
      expect((await list(`?cursor=${encodeURIComponent(bad)}`)).json).toMatchObject({
        code: 'invalid_cursor',
      });
    }
  });

  test('refuses a repeated cursor with 400', async () => {
    expect((await list('?cursor=a&cursor=a')).status).toBe(400);
  });
});

describe('HEAD /v1/pets', () => {
  test('has the headers of GET, and no body', async () => {
    await addPets(30);
    const get = await list('?limit=3');
    const head = await service.request('/v1/pets?limit=3', { method: 'HEAD' });
    expect([head.status, head.text]).toEqual([200, '']);
    for (const name of ['content-type', 'content-length', 'link']) {
      expect(head.headers.get(name)).toBe(get.headers.get(name));
    }
  });

  test('has the status of an error, and no body', async () => {
    const { status, text } = await service.request('/v1/pets?limit=0', { method: 'HEAD' });
    expect([status, text]).toEqual([400, '']);
  });
});
