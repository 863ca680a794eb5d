import { isDeepStrictEqual } from 'node:util';
import type { Operation } from './api.ts';
import type { Memory } from './memory.ts';
import { isRecord, parseExactly, type Value, violation } from './values.ts';
import type { Answer } from './wire.ts';

/** Checks of successful answers. Each gives what is wrong, or undefined; an answer to HEAD has only its head checked. */

const LOCATION_OF: Readonly<Record<string, string>> = { createPet: '/v1/pets/' };
const MESSAGE_ID = /^msg_[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const DEFAULT_LIMIT = '20';

const bodies = new WeakMap<Answer, unknown>();

/** The body of an answer, its integers exact. @throws SyntaxError */
export function readBody(answer: Answer): unknown {
  if (!bodies.has(answer)) bodies.set(answer, parseExactly(answer.body ?? 'null'));
  return bodies.get(answer);
}

function schemaProblem({ success }: Operation, answer: Answer): string | undefined {
  return answer.body === undefined ? undefined : violation(success.schema, readBody(answer));
}

/** An animal, which may be known already. */
export function petProblem(operation: Operation, answer: Answer, id: bigint, known?: unknown) {
  const problem = schemaProblem(operation, answer);
  if (problem !== undefined || answer.body === undefined) return problem;
  const pet = readBody(answer);
  if (!isRecord(pet) || pet.id !== id) return 'this is another animal';
  return known === undefined || isDeepStrictEqual(pet, known) ? undefined : 'the animal has changed';
}

/** What was created from these members, now or before. */
export function resourceProblem(
  operation: Operation,
  answer: Answer,
  members: ReadonlyMap<string, Value>,
  before?: unknown,
): string | undefined {
  const problem = schemaProblem(operation, answer);
  const resource = readBody(answer);
  if (problem !== undefined || !isRecord(resource)) return problem ?? 'this is no resource';
  for (const name of Object.keys(operation.body?.properties ?? {})) {
    if (resource[name] !== members.get(name)) return `${name} is not what was sent`;
  }
  const prefix = LOCATION_OF[operation.id];
  const location = prefix === undefined ? undefined : `${prefix}${resource.id}`;
  if (answer.headers.get('location') !== location) return `Location is not ${location}`;
  if (typeof resource.id === 'string' && !MESSAGE_ID.test(resource.id))
    return 'the id is no UUID of version 7';
  if ('createdAt' in resource && !TIMESTAMP.test(String(resource.createdAt))) return 'createdAt is no time';
  const isSame = before === undefined || isDeepStrictEqual(resource, before);
  return isSame ? undefined : 'this is not what the Idempotency-Key created before';
}

/**
 * A page: its order, its length, its filter and its link.
 *
 * @param wanted the parameters of the query
 * @param newest the last animal that the client knows to be there
 */
export function pageProblem(
  operation: Operation,
  answer: Answer,
  wanted: ReadonlyMap<string, string>,
  newest: Memory['pets'][number] | undefined,
): string | undefined {
  const status = wanted.get('status');
  const limit = wanted.get('limit') ?? DEFAULT_LIMIT;
  const next = nextOf(answer);
  if (next !== undefined) {
    if (next.get('limit') !== limit) return 'the Link has another limit';
    if (next.get('status') !== (status ?? null)) return 'the Link has another status';
    if (!next.get('cursor')) return 'the Link has no cursor';
  }
  const problem = schemaProblem(operation, answer);
  if (problem !== undefined || answer.body === undefined) return problem;

  const pets = arrayOf(readBody(answer));
  if (pets.length > Number(limit)) return 'the page is longer than its limit';
  if (next !== undefined && pets.length < Number(limit)) return 'a page that is not the last one is short';
  if (status !== undefined && pets.some((pet) => pet.status !== status)) return 'the filter does not hold';
  const ids = pets.map(({ id }) => BigInt(String(id)));
  for (const [index, id] of ids.entries()) {
    const before = ids[index - 1];
    if (before !== undefined && before <= id) return 'the page is not newest first';
  }
  const isOnTop =
    newest !== undefined && !wanted.has('cursor') && (status ?? newest.status) === newest.status;
  return isOnTop && (ids[0] ?? 0n) < newest.id ? 'what the client added is missing' : undefined;
}

function arrayOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

/** The query of the next page, where an answer links to one. */
export function nextOf({ headers }: Answer): URLSearchParams | undefined {
  const [, query] = /^<\?([^>]*)>; rel="next"$/.exec(headers.get('link') ?? '') ?? [];
  return query === undefined ? undefined : new URLSearchParams(query);
}
