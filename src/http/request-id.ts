import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** A key in the wrong header is not sane: ids are logged. */
const CLIENT_REQUEST_ID = /^(?!.*ast_(?:live|test)_)[A-Za-z0-9._-]{1,128}$/;

/** The id that answer and log lines of a request carry: the client's own where it is sane, else a new one. */
export function requestIdOf(headers: IncomingHttpHeaders): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && CLIENT_REQUEST_ID.test(given) ? given : randomUUID();
}
