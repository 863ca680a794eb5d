import type { FastifyReply, FastifyRequest } from 'fastify';
import { codeOf, isUnavailable, OutcomeUnknown } from '../db/errors.ts';
import { SECURITY_HEADERS } from './security-headers.ts';

/** The largest body that is read (decisions: Body). */
export const BODY_LIMIT_BYTES = 64 * 1024;

/** Every `code` an Error body can carry, with its HTTP status. */
export const ERROR_STATUS = {
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

export type ErrorCode = keyof typeof ERROR_STATUS;

/** The body of every error answer (interface: Error). */
export interface ErrorBody {
  code: ErrorCode;
  message: string;
  status: number;
}

/** A refusal that the client is told about: everything else that is thrown becomes `internal_error`. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }

  get body(): ErrorBody {
    return { code: this.code, message: this.message, status: ERROR_STATUS[this.code] };
  }
}

/** 503: nothing was stored, and the same request may succeed a moment later. */
export function unavailable(message = 'The service is not available at the moment; try again.'): ApiError {
  return new ApiError('unavailable', message, { 'retry-after': '1' });
}

function outcomeUnknown(): ApiError {
  const message =
    'The connection to the database broke: the request may have been stored, or not. ' +
    'Where it has an Idempotency-Key, send it again with the same one.';
  return new ApiError('outcome_unknown', message, { 'retry-after': '1' });
}

export function payloadTooLarge(): ApiError {
  return new ApiError('payload_too_large', `The body is larger than ${BODY_LIMIT_BYTES / 1024} KiB.`);
}

export function unsupportedMediaType(): ApiError {
  const headers = { accept: 'application/json' };
  return new ApiError('unsupported_media_type', 'Content-Type must be application/json.', headers);
}

/** Errors of the framework that are the client's doing; any other of its errors is a fault of ours. */
const FRAMEWORK_ERRORS: Readonly<Record<string, () => ApiError>> = {
  FST_ERR_BAD_URL: () =>
    new ApiError('invalid_request', 'The address of the request is not valid percent-encoded UTF-8.'),
  FST_ERR_CTP_BODY_TOO_LARGE: payloadTooLarge,
  FST_ERR_CTP_INVALID_MEDIA_TYPE: unsupportedMediaType,
};

/** The one place where whatever was thrown becomes what the client is told. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof OutcomeUnknown) return outcomeUnknown();
  if (isUnavailable(error)) return unavailable();
  return (
    FRAMEWORK_ERRORS[codeOf(error)]?.() ?? new ApiError('internal_error', 'The service failed to answer.')
  );
}

/**
 * Fastify's error handler, and what answers the errors that Fastify meets before it has a route. It writes the answer
 * itself, past hooks and serializers: one of those may be what failed.
 */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  reply.hijack();
  const { raw: response } = reply;
  if (response.headersSent || hasLeft(request)) {
    response.destroy();
    return;
  }
  const { body, headers } = toApiError(error);
  logFailure(error, body, request);
  const payload = JSON.stringify(body);
  const essential = {
    ...headers,
    ...SECURITY_HEADERS,
    'x-request-id': request.id,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(payload),
  };
  // Fastify asks to close the connection after every error of the body parser. A client that is still sending would
  // then lose the answer; left open, the rest of its body is read and dropped until the request times out.
  const { connection: _, ...headersSoFar } = reply.getHeaders();
  response.statusCode = body.status;
  for (const [name, value] of Object.entries({ ...headersSoFar, ...essential })) {
    try {
      if (value !== undefined) response.setHeader(name, value);
    } catch {
      // The fault may be a header that cannot be sent: the answer goes out without it.
    }
  }
  response.end(payload);
}

/** A fault of ours with all that is known of it. Of a database that is away, a line a request says enough. */
function logFailure(error: unknown, { code, status }: ErrorBody, request: FastifyRequest): void {
  if (status < 500) return;
  if (code === 'internal_error') request.log.error({ err: error }, 'request failed');
  else request.log.warn({ code, reason: reasonsOf(error).join(': ') }, 'request refused');
}

/** The messages of an error and of what caused it. */
function reasonsOf(error: unknown): string[] {
  if (!(error instanceof Error)) return [];
  return [error.message, ...reasonsOf(error.cause)];
}

/** Whether the client broke off before its request was complete. */
function hasLeft({ raw }: FastifyRequest): boolean {
  return raw.destroyed && !raw.complete;
}
