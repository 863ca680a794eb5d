import type { FastifyInstance, FastifyRequest } from 'fastify';
import { hashKey, isWellFormedKey } from '../keys/format.ts';
import type { LastUsedRecorder } from '../keys/last-used.ts';
import type { ActiveKey, FindActiveKey } from '../keys/repository.ts';
import { ApiError } from './errors.ts';
import { routeUnknownPathsThrough } from './routing.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The key that the request was authenticated with; null outside the scopes that ask for one. */
    apiKey: ActiveKey | null;
  }
}

const BEARER = /^bearer +(\S+)$/i;
const CHALLENGE = 'Bearer realm="animal-store"';

export interface AuthenticationOptions {
  findActiveKey: FindActiveKey;
  lastUsed: LastUsedRecorder;
  /** Milliseconds from the head of a request until nothing more is begun for it. */
  startMs: number;
}

/**
 * Asks for a bearer key on every path of a scope, unknown ones included, before the body is read (interface: Authentication; RFC 6750).
 * The key is looked up anew for each request, so that one revoked is dead from the next request on.
 */
export function requireKey(
  scope: FastifyInstance,
  { findActiveKey, lastUsed, startMs }: AuthenticationOptions,
): void {
  routeUnknownPathsThrough(scope);
  scope.addHook('onRequest', async (request) => {
    const startBy = performance.now() + startMs;
    const key = await authenticate(request, findActiveKey, startBy);
    request.apiKey = key;
    request.timeLeftMs = startBy - performance.now();
    lastUsed.note(key.id);
  });
}

async function authenticate(
  request: FastifyRequest,
  findActiveKey: FindActiveKey,
  startBy: number,
): Promise<ActiveKey> {
  const key = BEARER.exec(request.headers.authorization ?? '')?.[1];
  if (key === undefined) {
    throw new ApiError('missing_api_key', 'An API key is required: Authorization: Bearer <API_KEY>.', {
      'www-authenticate': CHALLENGE,
    });
  }
  const active = isWellFormedKey(key) ? await findActiveKey(hashKey(key), startBy) : undefined;
  if (active === undefined) {
    throw new ApiError('invalid_api_key', 'The API key is mistyped, unknown, expired or revoked.', {
      'www-authenticate': `${CHALLENGE}, error="invalid_token"`,
    });
  }
  return active;
}
