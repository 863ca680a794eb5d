import type { FastifyInstance } from 'fastify';
import findMyWay from 'find-my-way';
import { ApiError } from './errors.ts';

/**
 * Refuses what no route takes: 405 with `Allow` where the path has other methods, else 404. It does so after the
 * `onRequest` hooks of the scope that the path lies in, so that under a base address the key is checked first, and
 * before the body is read. Call it before routes are registered.
 */
export function refuseUnrouted(app: FastifyInstance): void {
  // Fastify's router finds a route by method and path together; this one tells the methods of a path.
  const paths = findMyWay({ maxParamLength: Number.POSITIVE_INFINITY });
  const methodsByPath = new Map<string, Set<string>>();

  app.addHook('onRoute', ({ url, method }) => {
    let methods = methodsByPath.get(url);
    if (methods === undefined) {
      methods = new Set();
      methodsByPath.set(url, methods);
      paths.on('GET', url, () => {}, methods);
    }
    for (const each of [method].flat()) methods.add(each);
  });

  app.addHook('preParsing', (request, _reply, _payload, next) => {
    if (!request.is404) return next();
    const methods: Set<string> | undefined = paths.find('GET', request.url)?.store;
    if (methods === undefined) {
      return next(routeNotFound());
    }
    const allow = [...methods].sort().join(', ');
    next(new ApiError('method_not_allowed', `This address takes only ${allow}.`, { allow }));
  });

  routeUnknownPathsThrough(app);
}

/** Has unknown paths below the prefix of a scope pass its hooks; `refuseUnrouted` refuses them after those. */
export function routeUnknownPathsThrough(scope: FastifyInstance): void {
  scope.setNotFoundHandler(() => {
    throw routeNotFound();
  });
}

function routeNotFound(): ApiError {
  return new ApiError('route_not_found', 'There is nothing at this address.');
}
