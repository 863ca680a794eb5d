import { isRecord } from './values.ts';
import type { Answer } from './wire.ts';

/** The status of every `code`, as the contract has it: written down anew, so that a slip of the service shows. */
const STATUS_OF_CODE = {
  invalid_request: 400,
  malformed_json: 400,
  invalid_cursor: 400,
  missing_api_key: 401,
  invalid_api_key: 401,
  pet_not_found: 404,
  route_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  operation_removed: 410,
  payload_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  expectation_failed: 417,
  idempotency_key_reused: 422,
  rate_limited: 429,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
  unavailable: 503,
  outcome_unknown: 503,
} as const;

export type ErrorCode = keyof typeof STATUS_OF_CODE;

const STATUS_OF = new Map<unknown, number>(Object.entries(STATUS_OF_CODE));

/** Those that a request can get while the service and its database are well. */
const POSSIBLE_STATUSES = new Set([
  ...[200, 201, 202],
  ...Object.values(STATUS_OF_CODE).filter((status) => status < 500),
  STATUS_OF_CODE.not_implemented,
]);

/** What is known about the bytes that were sent, whatever they are. */
export interface Sent {
  /** The client's own `x-request-id`, if it is sane; undefined if there is none, or it is not known. */
  readonly requestId: string | undefined;
  /** Whether an interim answer (1xx) is right. */
  readonly mayContinue: boolean;
  /** Whether it is a HEAD request; undefined where that is not known. */
  readonly isHead: boolean | undefined;
  readonly mayBeConnect: boolean;
}

type Rule = (answer: Answer, sent: Sent) => boolean;

/** What holds for each answer, whatever was sent. */
const RULES: Readonly<Record<string, Rule>> = {
  'nothing is a fault of the service': ({ status }, { mayBeConnect }) =>
    status < 500 || (status === STATUS_OF_CODE.not_implemented && mayBeConnect),

  'the status is a documented one': ({ status }) => POSSIBLE_STATUSES.has(status),

  'every body is JSON': ({ headers }) => /^application\/json(?:;|$)/.test(headers.get('content-type') ?? ''),

  'an error is exactly code, message and status': ({ status, body }) => {
    if (status < 400 || body === undefined) return true;
    const error = parse(body);
    return (
      isRecord(error) &&
      Object.keys(error).sort().join() === 'code,message,status' &&
      typeof error.message === 'string' &&
      error.message.trim() !== '' &&
      error.status === status
    );
  },

  'the code of an error goes with its status': ({ status, body }) =>
    status < 400 || body === undefined || STATUS_OF.get(codeOf(body)) === status,

  'an error tells nothing of the inside': ({ status, body = '' }) =>
    status < 400 || !/node_modules|\.[jt]s\b|postgres|SELECT|INSERT|FST_|HPE_/.test(body),

  'every answer carries one x-request-id': ({ headers }) =>
    /^[A-Za-z0-9._-]{1,128}$/.test(headers.get('x-request-id') ?? ''),

  "a sane x-request-id is the client's own": ({ headers }, { requestId }) =>
    requestId === undefined || headers.get('x-request-id') === requestId,

  '401 says how to authenticate': ({ status, headers, body }) => {
    if (status !== 401) return true;
    const challenge = headers.get('www-authenticate');
    if (body === undefined) return challenge !== undefined;
    const error = codeOf(body) === 'invalid_api_key' ? ', error="invalid_token"' : '';
    return challenge === `Bearer realm="animal-store"${error}`;
  },

  '405 says what is allowed': ({ status, headers }) =>
    status !== 405 || /^[A-Z]+(?:, [A-Z]+)*$/.test(headers.get('allow') ?? ''),

  'an answer to HEAD, and no other, comes without a body': ({ body }, { isHead }) =>
    isHead === undefined || isHead === (body === undefined),

  'an interim answer is only for those who wait for it': ({ interim }, { mayContinue }) =>
    interim.length === 0 || (mayContinue && interim.join() === '100'),
};

/** The first rule that an answer breaks, or undefined. */
export function brokenRule(answer: Answer, sent: Sent): string | undefined {
  return Object.keys(RULES).find((rule) => RULES[rule]?.(answer, sent) === false);
}

/** What a certain request must be answered with. */
export interface Prediction {
  /** The codes that it can be refused with. */
  readonly refusals: readonly ErrorCode[];
  /** How it succeeds; undefined where it must not. */
  readonly success: Success | undefined;
  /** What holds for refusals, too, once the key is good. @returns what is wrong, or undefined */
  also?(answer: Answer): string | undefined;
}

export interface Success {
  readonly status: number;
  /** @returns what is wrong with a successful answer, or undefined */
  check(answer: Answer): string | undefined;
}

/** How an answer differs from what was predicted, or undefined. */
export function difference(answer: Answer, { refusals, success, also }: Prediction): string | undefined {
  const { status, body } = answer;
  const problem = status === 401 ? undefined : also?.(answer);
  if (problem !== undefined) return problem;
  if (success !== undefined && status === success.status) return success.check(answer);
  // Without a body, as for HEAD, there is only the status to go by.
  const isRight = refusals.some((code) =>
    body === undefined ? STATUS_OF_CODE[code] === status : code === codeOf(body),
  );
  if (isRight) return undefined;
  const right = [...(success === undefined ? [] : [success.status]), ...refusals];
  return `the answer is ${status} ${body === undefined ? '' : codeOf(body)}, not ${right.join(' or ')}`;
}

/** The code in the body of an error, or undefined. */
function codeOf(body: string): unknown {
  const error = parse(body);
  return isRecord(error) ? error.code : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
