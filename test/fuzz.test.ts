import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type FuzzResult, fuzz, listsPets } from './fuzz/engine.ts';
import { Memory } from './fuzz/memory.ts';
import { brokenRule, difference } from './fuzz/oracle.ts';
import { Random } from './fuzz/random.ts';
import { anyRequest } from './fuzz/requests.ts';
import { createTarget, type Target } from './fuzz/target.ts';
import type { Answer } from './fuzz/wire.ts';
import { type Service, startService } from './support/service.ts';

/** `npm run test:fuzz` goes on from other seeds for as long as it is told to. */
const SEED = 1;
const REQUESTS = 24_000;
const TIMEOUT_MS = 120_000; // it takes 10 to 20 seconds

describe('a seeded run of generated requests', () => {
  let service: Service;
  let target: Target;
  let result: FuzzResult;
  beforeAll(async () => {
    service = await startService();
    target = await createTarget(service.db, service.port);
    result = await fuzz(target, { seed: SEED, requests: REQUESTS });
  }, TIMEOUT_MS);
  afterAll(() => service.stop());

  test('finds no 500, no wrong error shape, no wrong answer and no crash', () => {
    expect(result.findings).toEqual([]);
  });

  test('is at least 20,000 requests, a hundred or more of each kind', () => {
    expect(result.requests).toBeGreaterThanOrEqual(20_000);
    expect(Object.fromEntries([...result.kinds].filter(([, count]) => count < 100))).toEqual({});
  });

  test('gets answers of every status that a well service gives', () => {
    const wellStatuses = [200, 201, 202, 400, 401, 404, 405, 413, 415, 417, 422, 431, 501];
    expect([...result.statuses.keys()].sort()).toEqual(wellStatuses);
  });

  test('leaves a service that lists the animals, and no fault in its log', async () => {
    expect(await listsPets(target)).toBe(true);
    expect(service.log.filter((line) => JSON.parse(line).level >= 50)).toEqual([]);
  });
});

test('a seed gives the same requests again', () => {
  const target = { port: 0, keys: ['a', 'b'], badKeys: ['c'] };
  const requestsOf = (seed: number) => {
    const random = new Random(seed);
    const memory = new Memory();
    return Array.from({ length: 100 }, () => anyRequest(random, memory, target).bytes.toString('latin1'));
  };
  expect(requestsOf(1)).toEqual(requestsOf(1));
  expect(requestsOf(1)).not.toEqual(requestsOf(2));
});

describe('the run would find', () => {
  const sent = { requestId: 'mine', mayContinue: false, isHead: false, mayBeConnect: false };
  const good: Answer = {
    status: 400,
    interim: [],
    headers: new Map([
      ['content-type', 'application/json; charset=utf-8'],
      ['x-request-id', 'mine'],
    ]),
    body: '{"code":"invalid_request","message":"limit must be given only once.","status":400}',
  };
  const withHeader = (name: string, value: string) => new Map([...good.headers, [name, value]]);
  const body = (error: object) => JSON.stringify(error);

  test.each<[what: string, change: Partial<Answer>]>([
    ['a 500', { status: 500, body: body({ code: 'internal_error', message: 'x', status: 500 }) }],
    ['a 503', { status: 503, body: body({ code: 'unavailable', message: 'x', status: 503 }) }],
    [
      'a 501 for what is no CONNECT',
      { status: 501, body: body({ code: 'not_implemented', message: 'x', status: 501 }) },
    ],
    ['a status that is not documented', { status: 204, body: '' }],
    ['another media type', { headers: withHeader('content-type', 'text/plain') }],
    ['an error that is no JSON', { body: 'Bad Request' }],
    ['an error with another member', { body: body({ ...JSON.parse(good.body ?? ''), statusCode: 400 }) }],
    ['an error without a message', { body: body({ code: 'invalid_request', message: '', status: 400 }) }],
    ['an error of another status', { body: body({ code: 'invalid_request', message: 'x', status: 404 }) }],
    ['a code that is not its status', { body: body({ code: 'pet_not_found', message: 'x', status: 400 }) }],
    ['a code that there is not', { body: body({ code: 'bad_request', message: 'x', status: 400 }) }],
    ['a stack', { body: body({ code: 'invalid_request', message: 'at node_modules/x', status: 400 }) }],
    ['no x-request-id', { headers: new Map([['content-type', 'application/json']]) }],
    ["an x-request-id that is not the client's", { headers: withHeader('x-request-id', 'other') }],
    [
      '401 without a challenge',
      { status: 401, body: body({ code: 'missing_api_key', message: 'x', status: 401 }) },
    ],
    [
      '405 without Allow',
      { status: 405, body: body({ code: 'method_not_allowed', message: 'x', status: 405 }) },
    ],
    ['an answer without a body', { body: undefined }],
    ['an interim answer that nobody waits for', { interim: [100] }],
  ])('%s', (_what, change) => {
    expect(brokenRule(good, sent)).toBeUndefined();
    expect(brokenRule({ ...good, ...change }, sent)).toBeDefined();
  });

  test('an answer that was not predicted', () => {
    expect(difference(good, { refusals: ['invalid_request'], success: undefined })).toBeUndefined();
    expect(difference(good, { refusals: ['malformed_json'], success: undefined })).toBeDefined();
    expect(
      difference(good, { refusals: [], success: { status: 201, check: () => undefined } }),
    ).toBeDefined();
  });
});
