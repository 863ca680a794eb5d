import { randomInt } from 'node:crypto';
import { encodeCursor } from '../src/pets/cursor.ts';
import { DEFAULT_LIMIT, MAX_LIMIT } from '../src/pets/schemas.ts';
import type { Exchange } from './load.ts';
import { type SeededPet, STATUSES, seededPet } from './seed.ts';

/** Makes one request after the other. */
export type Workload = () => Exchange;

const READS_OF_TEN = 8;
const THOROUGH_CHECK_EVERY = 16;

/** What clients do, each request with the same key, on a table whose first `rows` animals are the seeded ones. */
export function workloads(key: string, rows: number) {
  const requests = requestsWith(key);
  const frontPage = (): Exchange => ({
    request: requests.get('/v1/pets'),
    adds: false,
    check: pageCheck({ limit: DEFAULT_LIMIT }),
  });

  /** Deep enough in the table that the page is full. */
  const randomPage = (): Exchange => {
    const limit = randomInt(1, MAX_LIMIT + 1);
    const status = STATUSES[randomInt(STATUSES.length)] ?? null;
    const before = BigInt(randomInt(Math.ceil(rows / 10), rows));
    return requestPage({ limit, status, before });
  };
  const requestPage = (page: PageOf): Exchange => {
    const query = new URLSearchParams({ limit: `${page.limit}` });
    if (page.status) query.set('status', page.status);
    if (page.before !== undefined) query.set('cursor', encodeCursor(page.before));
    return { request: requests.get(`/v1/pets?${query}`), adds: false, check: pageCheck(page) };
  };
  const getRandom = (): Exchange => {
    const id = randomInt(1, rows + 1);
    return { request: requests.get(`/v1/pets/${id}`), adds: false, check: petCheck(200, seededPet(id)) };
  };
  const create = (): Exchange => {
    const pet = {
      name: `New animal ${randomInt(1e9)}`,
      categoryId: randomInt(1e9),
      status: STATUSES[randomInt(3)],
    };
    return { request: requests.post('/v1/pets', JSON.stringify(pet)), adds: true, check: petCheck(201, pet) };
  };
  const reads = [frontPage, randomPage, getRandom];
  const mix = () => (randomInt(10) < READS_OF_TEN ? (reads[randomInt(reads.length)] ?? frontPage) : create)();

  const lastPage = () => requestPage({ limit: 20, status: null, before: 22n });

  return { frontPage, randomPage, get: getRandom, create, mix, lastPage } satisfies Record<string, Workload>;
}

function requestsWith(key: string) {
  const head = `Host: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n`;
  return {
    get: (target: string) => `GET ${target} HTTP/1.1\r\n${head}\r\n`,
    post: (target: string, body: string) =>
      `POST ${target} HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  };
}

interface PageOf {
  limit: number;
  status?: SeededPet['status'];
  /** The seeded animal that the page comes after. */
  before?: bigint;
}

/** Every page is checked by its first animal and its form, one in `THOROUGH_CHECK_EVERY` animal by animal. */
function pageCheck({ limit, status, before }: PageOf) {
  const isThorough = randomInt(THOROUGH_CHECK_EVERY) === 0;
  const first = before === undefined ? undefined : firstBefore(Number(before), status);
  return (code: number, body: string): string | undefined => {
    if (code !== 200) return `status ${code}: ${body}`;
    const [, id] = /^\[\{"id":(\d+),.*\}\]\s*$/.exec(body) ?? [];
    if (id === undefined) return `no page: ${body}`;
    if (first !== undefined && Number(id) !== first) return `a page that does not begin at ${first}: ${body}`;
    if (!isThorough) return undefined;
    const pets: SeededPet[] = JSON.parse(body);
    if (pets.length !== limit) return `${pets.length} animals instead of ${limit}`;
    let expected: number | undefined = first;
    for (const pet of pets) {
      if (expected === undefined) continue; // there may be new animals, of which only the form is known
      if (pet.id !== expected || !isSame(pet, seededPet(expected))) return `not animal ${expected}: ${body}`;
      expected = firstBefore(expected, status);
    }
    return undefined;
  };
}

/** The id of the newest seeded animal before another one, of a status where one is asked for. */
function firstBefore(id: number, status: SeededPet['status']): number {
  let before = id - 1;
  while (status && seededPet(before).status !== status) before--;
  return before;
}

function petCheck(code: number, expected: Omit<SeededPet, 'id'> & { id?: number }) {
  return (status: number, body: string): string | undefined => {
    if (status !== code) return `status ${status}: ${body}`;
    const pet: SeededPet = JSON.parse(body);
    const isExpected = pet.id > 0 && isSame(pet, { id: pet.id, ...expected });
    return isExpected ? undefined : `another animal: ${body}`;
  };
}

function isSame(pet: SeededPet, other: SeededPet): boolean {
  return (
    pet.id === other.id &&
    pet.name === other.name &&
    pet.categoryId === other.categoryId &&
    (pet.status ?? null) === (other.status ?? null)
  );
}
