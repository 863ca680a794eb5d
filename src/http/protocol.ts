import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError, payloadTooLarge, unsupportedMediaType } from './errors.ts';

/**
 * What HTTP asks of a request beside its path: exactly one Host (RFC 9112, 3.2), no expectation but
 * `100-continue` (RFC 9110, 10.1.1), and a body in a form that the server reads (RFC 9110, 8.3 and 8.4).
 * Node's own answers to a missing Host and to Expect would come before authentication, and without a body.
 */
export function enforceProtocol(app: FastifyInstance): void {
  app.server.on('checkContinue', app.routing).on('checkExpectation', app.routing);
  // A client may close its end as soon as it has sent its request; Node would then drop the answer.
  Object.assign(app.server, { httpAllowHalfOpen: true });

  // After authentication, before the body is read.
  app.addHook('preParsing', (request, reply, _payload, next) => {
    const refusal = refusalOfHead(request) ?? refusalOfBody(request);
    if (refusal !== undefined) return next(refusal);
    // A client of HTTP/1.0 does not know interim answers (RFC 9110, 10.1.1).
    if (request.headers.expect !== undefined && request.raw.httpVersion !== '1.0') reply.raw.writeContinue();
    next();
  });
}

/** A name or an IP address, and a port; it may be empty (RFC 9112, 3.2; RFC 3986, 3.2.2). Node joins two by `, `. */
const HOST = /^(\[[\w.:~!$&'()*+,;=-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-fA-F]{2})*)(:\d*)?$/;

function refusalOfHead({ raw, headers: { host, expect } }: FastifyRequest): ApiError | undefined {
  if (host === undefined ? raw.httpVersion === '1.1' : !HOST.test(host)) {
    return new ApiError('invalid_request', 'A request must have exactly one Host header, with a host in it.');
  }
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    return new ApiError('expectation_failed', 'The only expectation that can be met is 100-continue.');
  }
  return undefined;
}

/** With any parameters; spaces and tabs may stand around a semicolon (RFC 9110, 5.6.6 and 8.3.1). */
const JSON_TYPE =
  /^application\/json(?:[ \t]*;(?:[ \t]*[!#$%&'*+.^`|~\w-]+=(?:[!#$%&'*+.^`|~\w-]+|"(?:[^"\\]|\\.)*"))?)*[ \t]*$/i;
const FOREIGN_CHARSET = /;[ \t]*charset[ \t]*=(?!"?utf-8"?[ \t]*(;|$))/i;

function refusalOfBody({ headers, routeOptions }: FastifyRequest): ApiError | undefined {
  if (routeOptions.schema?.body === undefined) return undefined;
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = headers;
  if (!type) {
    return new ApiError(
      'invalid_request',
      'The Content-Type header is required; it must be application/json.',
    );
  }
  if (!JSON_TYPE.test(type)) return unsupportedMediaType();
  if (FOREIGN_CHARSET.test(type)) {
    return new ApiError('unsupported_media_type', 'The charset of the body must be utf-8.');
  }
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return new ApiError('unsupported_media_type', 'The body must not have a Content-Encoding.', {
      'accept-encoding': 'identity',
    });
  }
  return Number(length) > routeOptions.bodyLimit ? payloadTooLarge() : undefined;
}
