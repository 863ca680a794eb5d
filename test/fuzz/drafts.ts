import { METHODS } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { type Operation, operations, type Schema } from './api.ts';
import { anyBody, type Body, validBody, validMembers } from './bodies.ts';
import type { Creation, KeyUse, Memory } from './memory.ts';
import type { ErrorCode, Success } from './oracle.ts';
import { ALPHANUMERIC, LATIN1, type Random, VISIBLE_ASCII } from './random.ts';
import { nextOf, pageProblem, petProblem, readBody, resourceProblem } from './resources.ts';
import { invalidText, isRecord, type Value, validValue } from './values.ts';
import type { Answer } from './wire.ts';

/** The core of a request: where it goes, and what must become of it once its key is good. */
export interface Draft {
  readonly kind: string;
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers?: readonly Header[];
  readonly body?: Buffer;
  /** The codes that it can be refused with. */
  readonly refusals: readonly ErrorCode[];
  readonly success?: Success;
  /** Whether it may succeed in spite of `refusals`: the contract, or what the client knows, leaves it open. */
  readonly mayBeTaken?: boolean;
  /** Whether its path cannot be decoded, so that it is refused before its key is looked at. */
  readonly isUndecodable?: boolean;
  /** What holds for refusals, too. @returns what is wrong, or undefined */
  also?(answer: Answer): string | undefined;
  /** Takes from a right answer what later requests can be made of. */
  learn?(answer: Answer): void;
}

export type Header = readonly [name: string, value: string];

/** A client: what it knows, and the good API key that it uses. */
export interface Client {
  readonly random: Random;
  readonly memory: Memory;
  readonly apiKey: string;
}

const BASE64URL = `${ALPHANUMERIC}-_`;
const SERVICE_PATHS = ['/health/live', '/health/ready', '/openapi.json'];
const ROUTED_METHODS = METHODS.filter((method) => method !== 'CONNECT');

/** A draft of any kind; most of them are of the operations of the OpenAPI document. */
export function anyDraft(client: Client): Draft {
  const { random } = client;
  return random.weighted([
    [80, () => operationDraft(client, random.pick(operations))],
    [6, () => otherMethodDraft(random)],
    [6, () => unknownPathDraft(random)],
    [3, () => undecodableDraft(random)],
    [4, () => serviceDraft(random)],
  ])();
}

function operationDraft(client: Client, operation: Operation): Draft {
  if (operation.body !== undefined) return postDraft(client, operation, operation.body);
  return operation.path.includes('{') ? getDraft(client, operation) : listDraft(client, operation);
}

// Reading

/** HEAD is GET without the body of the answer. */
function readMethod(random: Random): string {
  return random.chance(10) ? 'HEAD' : 'GET';
}

function getDraft({ random, memory }: Client, operation: Operation): Draft {
  const draft = (segment: string): Omit<Draft, 'refusals'> => ({
    kind: operation.id,
    method: readMethod(random),
    target: operation.path.replace(/\{\w+\}/, segment) + ignoredQuery(random),
    also: announcementProblem,
  });
  const { status } = operation.success;
  if (memory.pets.length > 0 && random.chance(50)) {
    const { id, pet } = random.pick(memory.pets);
    const check = (answer: Answer) => petProblem(operation, answer, id, pet);
    return { ...draft(percentEncoded(random, `${id}`)), refusals: [], success: { status, check } };
  }
  if (random.chance(50)) return { ...draft(oddSegment(random)), refusals: ['pet_not_found'] };

  const id = BigInt(validValue(random, { type: 'integer' }));
  const check = (answer: Answer) => petProblem(operation, answer, id);
  return {
    ...draft(percentEncoded(random, `${id}`)),
    refusals: ['pet_not_found'],
    success: { status, check },
    mayBeTaken: id > 0n && id < 2n ** 40n, // another client may have added it
  };
}

function announcementProblem({ headers }: Answer): string | undefined {
  const isAnnounced =
    headers.get('deprecation') === '@1795132800' &&
    headers.get('sunset') === 'Thu, 05 Dec 2030 00:00:00 GMT' &&
    /rel="deprecation"/.test(headers.get('link') ?? '') &&
    /<\/v1\/pets>; rel="successor-version"/.test(headers.get('link') ?? '');
  return isAnnounced ? undefined : 'the deprecation is not announced';
}

/** A segment of a path that is no int64. */
function oddSegment(random: Random): string {
  const text = random.weighted([
    [5, () => invalidText(random, { type: 'integer' })],
    [2, () => random.text(VISIBLE_ASCII, random.int(1, 12))],
    [
      2,
      () => random.pick(['1/2', '../pets', '猫', '🐈', '1\0', '\r\n', '__proto__', '%31', '1e400', ':petId']),
    ],
    [1, () => '9'.repeat(random.int(20, 4000))],
  ])();
  // An int64 would be found, and nothing, "." and ".." would make it another path.
  const isElsewhere = /^(?:-?\d{1,19}|\.{0,2})$/.test(text);
  return encodeURIComponent(isElsewhere ? 'x' : text);
}

function listDraft({ random, memory }: Client, operation: Operation): Draft {
  const wanted = new Map<string, string>();
  const parts: string[] = [];
  const refusals: ErrorCode[] = [];
  let mayBeTaken = true;
  for (const [name, schema] of operation.query) {
    const isCursor = name === 'cursor';
    if (random.chance(50) || (isCursor && memory.cursors.length === 0)) continue;
    const { text, refusal, isDoubtful } = isCursor
      ? anyCursor(random, memory.cursors)
      : anyParameter(random, schema);
    wanted.set(name, text);
    const value = refusal === undefined ? percentEncoded(random, text) : encodeURIComponent(text);
    const part = `${percentEncoded(random, name)}=${value}`;
    parts.push(part);
    if (refusal !== undefined) {
      refusals.push(refusal);
      mayBeTaken &&= isDoubtful;
    }
    if (random.chance(3)) {
      parts.push(random.pick([part, `${name}=`, name]));
      refusals.push('invalid_request');
      mayBeTaken = false;
    }
  }
  const query = random.shuffled([...parts, ...ignoredParts(random)]).join('&');
  const newest = memory.pets.at(-1);
  return {
    kind: operation.id,
    method: readMethod(random),
    target: operation.path + (query === '' ? random.pick(['', '', '?']) : `?${query}`),
    refusals,
    success: {
      status: operation.success.status,
      check: (answer) => pageProblem(operation, answer, wanted, newest),
    },
    mayBeTaken,
    learn: (answer) => {
      const cursor = nextOf(answer)?.get('cursor');
      if (cursor) memory.cursors.push(cursor);
    },
  };
}

/** The text of a parameter, and what it is refused with, surely or perhaps. */
interface Parameter {
  readonly text: string;
  readonly refusal?: ErrorCode;
  readonly isDoubtful: boolean;
}

function anyParameter(random: Random, schema: Schema): Parameter {
  return random.chance(15)
    ? { text: invalidText(random, schema), refusal: 'invalid_request', isDoubtful: false }
    : { text: `${validValue(random, schema)}`, isDoubtful: false };
}

/** Since cursors are opaque, of most changed ones nobody but the service knows whether they are good. */
function anyCursor(random: Random, cursors: readonly string[]): Parameter {
  const cursor = random.pick(cursors);
  return random.weighted<() => Parameter>([
    [84, () => ({ text: cursor, isDoubtful: false })],
    [8, () => ({ text: wrongCursor(random, cursor), refusal: 'invalid_cursor', isDoubtful: false })],
    [8, () => ({ text: changedCursor(random, cursor), refusal: 'invalid_cursor', isDoubtful: true })],
  ])();
}

function wrongCursor(random: Random, cursor: string): string {
  const near = [`${cursor}!`, `${cursor} `, ` ${cursor}`, `${cursor}=`, `"${cursor}"`, `${cursor},${cursor}`];
  return random.pick([...near, '%', '猫', '\0', '../..', 'a'.repeat(4000)]);
}

function changedCursor(random: Random, cursor: string): string {
  const at = random.int(1, cursor.length - 1);
  const inside = Buffer.from(cursor, 'base64url').toString('latin1');
  const replaced = inside.replace(/-?\d+/, `${validValue(random, { type: 'integer' })}`);
  return random.pick([
    cursor.slice(0, at),
    cursor.slice(0, at) + random.text(BASE64URL, 1) + cursor.slice(at + 1),
    cursor + random.text(BASE64URL, 1),
    random.text(BASE64URL, random.int(1, 40)),
    Buffer.from(replaced, 'latin1').toString('base64url'),
  ]);
}

// Creating

/** What a request has to do with an Idempotency-Key. */
interface KeyPlan {
  readonly body: Body;
  readonly headers?: readonly Header[];
  readonly refusals?: readonly ErrorCode[];
  /** The use of a new key, which what is created will belong to. */
  readonly use?: KeyUse;
  /** What was created with the key before, and must be given back. */
  readonly before?: Creation;
}

function postDraft(client: Client, operation: Operation, schema: Schema): Draft {
  const { random, memory } = client;
  const plan = planKey(client, operation, schema);
  const draft = creationDraft(memory, operation, plan);
  const media = mediaOf(random);
  const otherRefusals = [...media.refusals, ...(plan.refusals ?? [])];
  return {
    ...draft,
    target: draft.target + ignoredQuery(random),
    headers: [...media.headers, ...(plan.headers ?? [])],
    refusals: [...draft.refusals, ...otherRefusals],
    mayBeTaken: plan.body.mayBeTaken && otherRefusals.length === 0,
  };
}

/** Creates what a good body says with a key that is new. */
export function keyedDraft(client: Client): Draft {
  const operation = client.random.pick(operations.filter(({ body }) => body !== undefined));
  const body = validBody(client.random, validMembers(client.random, operation.body ?? {}));
  const plan = withKey(client, operation, newIdempotencyKey(client.random), body);
  return {
    ...creationDraft(client.memory, operation, plan),
    headers: [['Content-Type', 'application/json'], ...(plan.headers ?? [])],
  };
}

function creationDraft(memory: Memory, operation: Operation, { body, use, before }: KeyPlan): Draft {
  const { id, method, path, success } = operation;
  return {
    kind: id,
    method,
    target: path,
    body: body.bytes,
    refusals: body.refusals,
    success: {
      status: success.status,
      check: (answer) => resourceProblem(operation, answer, body.members, before?.resource),
    },
    learn: (answer) => {
      const isCreated = answer.status === success.status;
      if (use !== undefined && !isCreated) memory.refused.push(use);
      if (!isCreated || before !== undefined) return;
      const resource = readBody(answer);
      if (use !== undefined) memory.creations.push({ ...use, members: body.members, resource });
      if (isRecord(resource) && typeof resource.id === 'bigint') {
        memory.pets.push({ id: resource.id, status: body.members.get('status'), pet: resource });
      }
    },
  };
}

function planKey(client: Client, operation: Operation, schema: Schema): KeyPlan {
  const { random, memory, apiKey } = client;
  const isHere = (use: KeyUse) => use.operationId === operation.id && use.apiKey === apiKey;
  const here = memory.creations.filter(isHere);
  const elsewhere = memory.creations.filter(
    (creation) =>
      !isHere(creation) && !memory.uses.has(useOf(client, operation, creation.idempotencyKey).text),
  );
  const refused = memory.refused.filter(isHere);
  const members = validMembers(random, schema);
  const good = () => validBody(random, members);
  return random.weighted<() => KeyPlan>([
    [65, () => ({ body: anyBody(random, schema) })],
    [15, () => withKey(client, operation, newIdempotencyKey(random), anyBody(random, schema))],
    [
      elsewhere.length > 0 ? 4 : 0,
      () => withKey(client, operation, random.pick(elsewhere).idempotencyKey, good()),
    ],
    [refused.length > 0 ? 5 : 0, () => retry(memory, random.pick(refused), good())],
    [here.length > 0 ? 7 : 0, () => repeat(random, random.pick(here))],
    [here.length > 0 ? 5 : 0, () => reuse(random, random.pick(here), members)],
    [4, () => malformedKey(random, anyBody(random, schema))],
  ])();
}

/** A key that is new for this operation and this account, though it may have been used elsewhere. */
function withKey(client: Client, operation: Operation, idempotencyKey: string, body: Body): KeyPlan {
  const { use, text } = useOf(client, operation, idempotencyKey);
  client.memory.uses.add(text);
  return { body, use, headers: keyHeader(use) };
}

function useOf({ apiKey }: Client, { id }: Operation, idempotencyKey: string): { use: KeyUse; text: string } {
  const use = { operationId: id, apiKey, idempotencyKey };
  return { use, text: JSON.stringify(use) };
}

/** A key that nothing was created with is as good as new. */
function retry({ refused }: Memory, use: KeyUse, body: Body): KeyPlan {
  refused.splice(refused.indexOf(use), 1);
  return { body, use, headers: keyHeader(use) };
}

/** The same key and body, written in another way. */
function repeat(random: Random, before: Creation): KeyPlan {
  return { body: validBody(random, before.members), headers: keyHeader(before), before };
}

/** The same key with another body. */
function reuse(random: Random, before: Creation, members: ReadonlyMap<string, Value>): KeyPlan {
  if (isDeepStrictEqual(members, before.members)) return repeat(random, before);
  return {
    body: validBody(random, members),
    headers: keyHeader(before),
    refusals: ['idempotency_key_reused'],
  };
}

function malformedKey(random: Random, body: Body): KeyPlan {
  const key = newIdempotencyKey(random);
  const values = random.pick([
    [''],
    [random.text(VISIBLE_ASCII, random.pick([256, 257, 2000]))],
    [`${key} ${key}`],
    [`${key}\t${key}`],
    [random.text(LATIN1, 8)],
    [`${key}\u00ff`],
    [key, key],
    [key, newIdempotencyKey(random)],
  ]);
  return { body, headers: values.map((value) => ['Idempotency-Key', value]), refusals: ['invalid_request'] };
}

function newIdempotencyKey(random: Random): string {
  return random.text(VISIBLE_ASCII, random.chance(15) ? 255 : random.int(16, 40));
}

function keyHeader({ idempotencyKey }: KeyUse): readonly Header[] {
  return [['Idempotency-Key', idempotencyKey]];
}

/** What a body says to be, and what it is refused with for that. */
function mediaOf(random: Random): { headers: readonly Header[]; refusals: readonly ErrorCode[] } {
  const refusals: ErrorCode[] = [];
  const headers: Header[] = [];
  const type = random.weighted<() => string | undefined>([
    [85, () => random.pick(JSON_TYPES)],
    [5, () => undefined],
    [6, () => random.pick(OTHER_TYPES)],
  ])();
  if (type !== undefined) headers.push(['Content-Type', type]);
  if (type === undefined) refusals.push('invalid_request');
  else if (!JSON_TYPES.includes(type)) refusals.push('unsupported_media_type');
  else if (random.chance(2)) {
    headers.push(['Content-Type', random.pick(JSON_TYPES)]);
    refusals.push('unsupported_media_type', 'invalid_request');
  }
  if (random.chance(5)) {
    const encoding = random.pick(['identity', 'identity', 'gzip', 'br', 'deflate', 'x', 'gzip, identity']);
    headers.push(['Content-Encoding', encoding]);
    if (encoding !== 'identity') refusals.push('unsupported_media_type');
  }
  return { headers, refusals };
}

const JSON_TYPES = [
  ...['application/json', 'application/json', 'application/json', 'APPLICATION/Json'],
  ...['application/json; charset=utf-8', 'application/json;charset="UTF-8"', 'application/json ;  v=1'],
  'application/json\t;\tcharset=utf-8',
];
const OTHER_TYPES = [
  ...['text/plain', 'text/json', 'application/xml', 'application/jsonp', 'application/json-patch+json'],
  ...['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', '*/*', 'json', 'application/'],
  ...['application/json; charset=latin1', 'application/json; charset=utf-16', 'text/plain, application/json'],
  ...['application/json;\tcharset=latin1', 'application/json; v=1, text/plain'],
];

// Elsewhere

function otherMethodDraft(random: Random): Draft {
  const paths = [...operations.map(({ path }) => path), ...SERVICE_PATHS];
  const path = random.pick(paths);
  const allowed = SERVICE_PATHS.includes(path)
    ? ['GET']
    : operations.filter((operation) => operation.path === path).map(({ method }) => method);
  if (allowed.includes('GET')) allowed.push('HEAD');
  return {
    kind: 'a method that the address lacks',
    method: random.pick(ROUTED_METHODS.filter((method) => !allowed.includes(method))),
    target: path.replace(/\{\w+\}/, `${random.int(0, 99)}`) + ignoredQuery(random),
    refusals: ['method_not_allowed'],
    also: ({ status, headers }) => {
      const isExact = headers.get('allow') === allowed.sort().join(', ');
      return status !== 405 || isExact ? undefined : `Allow is not ${allowed}`;
    },
  };
}

function unknownPathDraft(random: Random): Draft {
  const segment = () => percentEncoded(random, random.text(BASE64URL, random.int(1, 20)));
  const target = random.pick([
    ...[
      '/',
      '//',
      '/v1',
      '/v1/',
      '/v1?x=/pets',
      '/quickstart',
      '/quickstart/',
      '/v1/messages',
      '/quickstart/pets',
    ],
    ...[
      '/V1/pets',
      '/v1/Pets',
      '/v1/PETS/1',
      '/v1//pets',
      '//v1/pets',
      '/v1/pets/1/',
      '/v1/pets//',
      '/v1/pets;x',
    ],
    ...[
      '/v1/../health/live',
      '/v1/./pets',
      '/v1/%2e%2e/health/live',
      '/v1%2Fpets',
      '/v1/pets%2F1',
      '/v1/pets%3F',
    ],
    ...[
      '/v1/store/orders',
      '/v2/pets',
      '/pets',
      '/metrics',
      '/health',
      '/health/',
      '/health/live/',
      '/favicon.ico',
    ],
    ...[
      '/v1/__proto__',
      '/constructor',
      '/v1/toString',
      '/:petId',
      '/*',
      '/v1/*',
      '/v1/%00',
      '/%F0%9F%90%88',
    ],
    ...[`/${'a'.repeat(random.int(1, 5000))}`, `/v1${'/a'.repeat(random.int(1, 2000))}`],
    ...[
      `/${segment()}`,
      `/v1/x${segment()}`,
      `/quickstart/x${segment()}`,
      `/v1/pets/${segment()}/${segment()}`,
    ],
  ]);
  return {
    kind: 'an unknown path',
    method: random.pick(['GET', 'POST', random.pick(ROUTED_METHODS)]),
    target: target.includes('?') ? target : target + ignoredQuery(random),
    refusals: ['route_not_found'],
  };
}

function undecodableDraft(random: Random): Draft {
  const broken = random.pick([
    '%',
    '%2',
    '%zz',
    '%ff',
    '%C0%80',
    '%ED%A0%80',
    '%E7%8C',
    '%80',
    '%%31',
    '%u0041',
  ]);
  const path = random.pick(['/v1/pets/', '/v1/', '/quickstart/', '/', '/health/', '/v1/pets/1']);
  return {
    kind: 'a path that cannot be decoded',
    method: random.pick(['GET', 'GET', 'POST', 'HEAD', random.pick(ROUTED_METHODS)]),
    target: path + random.text(BASE64URL, random.int(0, 3)) + broken + ignoredQuery(random),
    refusals: ['invalid_request'],
    isUndecodable: true,
  };
}

function serviceDraft(random: Random): Draft {
  return {
    kind: 'an address without a key',
    method: readMethod(random),
    target: random.pick(['/health/live', '/health/live', ...SERVICE_PATHS]) + ignoredQuery(random),
    refusals: [],
    success: { status: 200, check: () => undefined },
  };
}

// Queries

const IGNORED = [
  ...[
    'x=1',
    'x',
    '=',
    '=x',
    '',
    'a=b=c',
    'x=+',
    'page=2',
    'offset=1',
    'Limit=0',
    'limit%5B%5D=0',
    'limit%00=0',
  ],
  ...['__proto__=1', '__proto__', 'constructor=x', '__proto__%5Blimit%5D=0', 'toString', 'hasOwnProperty=1'],
  ...['x=%zz', 'x=%', 'x=%ff', '%ff=1', '%=1', 'x=%00', 'x=%F0%9F%90%88', 'x=/../', 'x=?', 'status.x=1'],
];

/** Parts of a query that no operation knows. */
function ignoredParts(random: Random): string[] {
  if (!random.chance(20)) return [];
  const long = `x=${'a'.repeat(2000)}`;
  return Array.from({ length: random.int(1, 3) }, () => random.pick([...IGNORED, long]));
}

function ignoredQuery(random: Random): string {
  const parts = ignoredParts(random);
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}

/** One of the ways to write a text in a path or a query. */
export function percentEncoded(random: Random, text: string): string {
  const percent = random.pick([0, 0, 0, 10, 100]);
  const encode = (character: string) => `%${character.charCodeAt(0).toString(16)}`;
  return encodeURIComponent(text).replaceAll(/%..|./g, (written) =>
    written.length > 1 || !random.chance(percent) ? written : encode(written),
  );
}
