import type { onRequestHookHandler } from 'fastify';
import { ApiError } from './errors.ts';

/** The present, as a function, so that tests can choose it. */
export type Clock = () => Date;

export interface Deprecation {
  deprecatedAt: Date;
  /** From this moment on the operation is gone. */
  sunsetAt: Date;
  /** What tells people about it (RFC 9745, 3). */
  documentation: string;
  /** What takes its place (RFC 5829, 3.3). */
  successor: string;
}

/** Announces the end of an operation (RFC 9745, RFC 8594) on each of its answers, and from then on refuses it with 410. */
export function announceDeprecation(deprecation: Deprecation, clock: Clock): onRequestHookHandler {
  const headers = {
    deprecation: `@${deprecation.deprecatedAt.getTime() / 1000}`,
    sunset: deprecation.sunsetAt.toUTCString(),
    link: `<${deprecation.documentation}>; rel="deprecation", <${deprecation.successor}>; rel="successor-version"`,
  };
  return (_request, reply, next) => {
    reply.headers(headers);
    if (!isRemoved(deprecation, clock)) return next();
    const day = deprecation.sunsetAt.toISOString().slice(0, 10);
    next(
      new ApiError(
        'operation_removed',
        `This operation was removed on ${day}; see ${deprecation.successor}.`,
      ),
    );
  };
}

export function isRemoved({ sunsetAt }: Deprecation, clock: Clock): boolean {
  return clock() >= sunsetAt;
}
