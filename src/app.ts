import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Config } from './config.ts';
import type { Database } from './db/database.ts';
import { requestLimits } from './db/time-limits.ts';
import { logRequest } from './http/access-log.ts';
import { requireKey } from './http/authentication.ts';
import { limitConnections } from './http/connection-limit.ts';
import { allowOrigins } from './http/cors.ts';
import type { Clock } from './http/deprecation.ts';
import { drainBeforeClose } from './http/draining.ts';
import { BODY_LIMIT_BYTES, sendError } from './http/errors.ts';
import { registerHealth } from './http/health.ts';
import { acceptOnlyJson } from './http/json.ts';
import { createRequestMeter } from './http/metrics.ts';
import { documentRoutes, ErrorComponent } from './http/openapi.ts';
import { openConnections } from './http/open-connections.ts';
import { handleParserError, refuseConnect } from './http/parser-errors.ts';
import { answerInTurn } from './http/pipelining.ts';
import { enforceProtocol } from './http/protocol.ts';
import { limitRate } from './http/rate-limit.ts';
import { requestIdOf } from './http/request-id.ts';
import { refuseUnrouted } from './http/routing.ts';
import { SECURITY_HEADERS } from './http/security-headers.ts';
import { validatorCompiler } from './http/validation.ts';
import { LastUsedRecorder } from './keys/last-used.ts';
import { createKeyLookup, touchKeys } from './keys/repository.ts';
import { createMessageRepository } from './messages/repository.ts';
import { messageRoutes } from './messages/routes.ts';
import { messageComponents } from './messages/schemas.ts';
import { createPetRepository } from './pets/repository.ts';
import { petRoutes } from './pets/routes.ts';
import { petComponents } from './pets/schemas.ts';

const TIMEOUT_CHECK_INTERVAL_MS = 500;

const components = [ErrorComponent, ...petComponents, ...messageComponents];

export interface AppOptions {
  config: Config;
  db: Database;
  logger: Logger;
  /** Where the metrics of the requests go. */
  registry: Registry;
  clock?: Clock;
}

/** The whole HTTP side of the service, for production and tests alike. Hooks run in the order of this file. */
export async function buildApp(options: AppOptions) {
  const { config, db, logger, registry, clock = () => new Date() } = options;
  const measureRequest = createRequestMeter(registry);
  const recordAtEnd = (request: FastifyRequest, reply: FastifyReply) => {
    reply.raw.once('close', () => {
      logRequest(request, reply);
      measureRequest(request, reply);
    });
  };
  const loggerInstance: FastifyBaseLogger = logger;
  const app = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: ({ headers }) => requestIdOf(headers),
    bodyLimit: BODY_LIMIT_BYTES,
    requestTimeout: config.requestTimeoutMs,
    connectionTimeout: config.requestTimeoutMs + config.requestDeadlineMs, // for one on which nothing moves
    routerOptions: { maxParamLength: Number.MAX_SAFE_INTEGER }, // the size of the head is limited as a whole
    http: {
      headersTimeout: config.requestTimeoutMs,
      connectionsCheckingInterval: TIMEOUT_CHECK_INTERVAL_MS,
      requireHostHeader: false, // enforceProtocol asks for it, in the shape of our errors
      joinDuplicateHeaders: true, // so that two Authorization headers are seen as malformed
    },
    return503OnClosing: false, // what arrives on an open connection while draining is still answered
    frameworkErrors: (error, request, reply) => {
      recordAtEnd(request, reply); // no hook runs for a request that cannot be routed
      sendError(error, request, reply);
    },
    clientErrorHandler: handleParserError,
  }).withTypeProvider<TypeBoxTypeProvider>();

  app.setErrorHandler(sendError);
  app.setValidatorCompiler(validatorCompiler(components));
  acceptOnlyJson(app);
  app.decorateRequest('apiKey', null).decorateRequest('timeLeftMs', 0);

  const open = openConnections(app);
  const isDraining = drainBeforeClose(app, {
    open,
    pauseMs: config.shutdownPauseMs,
    deadlineMs: config.requestTimeoutMs + config.requestDeadlineMs,
  });
  refuseConnect(app);
  app.addHook('onRequest', (request, reply, next) => {
    recordAtEnd(request, reply);
    reply.headers({ ...SECURITY_HEADERS, 'x-request-id': request.id });
    next();
  });
  answerInTurn(app);
  if (config.corsOrigins.length > 0) allowOrigins(app, config.corsOrigins);
  limitConnections(app, open, config.maxConnections);
  if (config.rateLimitPerMinute > 0) await limitRate(app, config.rateLimitPerMinute);
  refuseUnrouted(app);
  enforceProtocol(app);

  await documentRoutes(app, components);
  registerHealth(app, db, isDraining);

  const lastUsed = new LastUsedRecorder((keyIds) => touchKeys(db, keyIds), logger);
  app.addHook('onClose', () => lastUsed.flush());

  const pets = createPetRepository(db);
  const messages = createMessageRepository(db);
  const authentication = {
    findActiveKey: createKeyLookup(db),
    lastUsed,
    startMs: requestLimits(config.requestDeadlineMs).start,
  };

  await app.register(
    async (v1) => {
      requireKey(v1, authentication);
      await v1.register(petRoutes, { pets, clock });
    },
    { prefix: '/v1' },
  );
  await app.register(
    async (quickstart) => {
      requireKey(quickstart, authentication);
      await quickstart.register(messageRoutes, { messages });
    },
    { prefix: '/quickstart' },
  );

  return app;
}
