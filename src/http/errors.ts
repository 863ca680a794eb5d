import type { FastifyReply, FastifyRequest } from 'fastify';
import { isUnavailable } from '../db/errors.ts';

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
  uri_too_long: 414,
  unsupported_media_type: 415,
  expectation_failed: 417,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
  unavailable: 503,
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

/** Errors of the framework that are the client's doing; any other of its errors is a fault of ours. */
const FRAMEWORK_ERRORS: Readonly<Record<string, () => ApiError>> = {
  FST_ERR_BAD_URL: () => new ApiError('invalid_request', 'The path is not valid percent-encoded UTF-8.'),
  FST_ERR_MAX_PARAM_LENGTH: () => new ApiError('uri_too_long', 'A segment of the path is too long.'),
  FST_ERR_CTP_BODY_TOO_LARGE: () => new ApiError('payload_too_large', 'The body is larger than 64 KiB.'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new ApiError('invalid_request', 'Content-Length does not match the length of the body.'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new ApiError('unsupported_media_type', 'Content-Type must be application/json.'),
};

/** The one place where whatever was thrown becomes what the client is told. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (isUnavailable(error)) return unavailable();
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return FRAMEWORK_ERRORS[code]?.() ?? new ApiError('internal_error', 'The service failed to answer.');
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
  if (body.status >= 500) request.log.error({ err: error }, 'request failed');
  const payload = JSON.stringify(body);
  const essential = {
    ...headers,
    'x-request-id': request.id,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(payload),
  };
  // Fastify asks to close the connection after every error of the body parser. A client that is still sending would
  // then lose the answer; left open, the rest of its body is read and dropped until the request times out.
  reply.removeHeader('connection');
  response.statusCode = body.status;
  for (const [name, value] of Object.entries({ ...reply.getHeaders(), ...essential })) {
    try {
      if (value !== undefined) response.setHeader(name, value);
    } catch {
      // The fault may be a header that cannot be sent: the answer goes out without it.
    }
  }
  response.end(payload);
}

/** Whether the client broke off before its request was complete. */
function hasLeft({ raw }: FastifyRequest): boolean {
  return raw.destroyed && !raw.complete;
}
