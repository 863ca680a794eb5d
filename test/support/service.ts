import { pino } from 'pino';
import { Registry } from 'prom-client';
import { buildApp } from '../../src/app.ts';
import { type Config, loadConfig } from '../../src/config.ts';
import { type Database, openDatabase } from '../../src/db/database.ts';
import type { Clock } from '../../src/http/deprecation.ts';
import { createKey } from '../../src/keys/commands.ts';
import { connect, createDatabase } from './database.ts';

type App = Awaited<ReturnType<typeof buildApp>>;

export interface RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  /** Sent as it is; anything but a string is made JSON. */
  body?: unknown;
  /** The key to send; null for none. */
  key?: string | null;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** The body, for values that a JavaScript number holds exactly. */
  json: unknown;
}

export interface Service {
  app: App;
  /** The database, as the role of the tests. */
  db: Database;
  databaseUrl: string;
  origin: string;
  port: number;
  key: string;
  /** What was logged, a line each. */
  log: string[];
  request(path: string, options?: RequestOptions): Promise<Answer>;
  stop(): Promise<void>;
}

export interface ServiceOptions {
  clock?: Clock;
  config?: Partial<Config>;
  databaseUrl?: string;
  /** A connection string for the service itself, where its role is to be another one than that of the tests. */
  servedAs?: string;
  /** Adds routes before the service listens. */
  extend?: (app: App) => void;
}

/** The service as production builds it, listening on a port of its own, on a database of its own. */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const databaseUrl = options.databaseUrl ?? (await createDatabase());
  const { servedAs = databaseUrl } = options;
  const settings = { DATABASE_URL: servedAs, KEY_ENVIRONMENT: 'test', SHUTDOWN_PAUSE_MS: '0' };
  const config = { ...loadConfig(settings), ...options.config };
  const log: string[] = [];
  const logger = pino({ level: 'debug', base: null }, { write: (line: string) => log.push(line) });
  const serving = openDatabase(config, logger);
  const db = options.servedAs === undefined ? serving : connect(databaseUrl);
  const registry = new Registry();
  const app = await buildApp({
    config,
    db: serving,
    logger,
    registry,
    ...(options.clock && { clock: options.clock }),
  });
  options.extend?.(app);
  const origin = await app.listen({ host: '127.0.0.1', port: 0 });
  const key = await newKey(db);

  return {
    app,
    db,
    databaseUrl,
    origin,
    port: Number(new URL(origin).port),
    key,
    log,
    request: (path, request = {}) => send(`${origin}${path}`, { key, ...request }),
    stop: async () => {
      await app.close();
      await Promise.all([serving.destroy(), db.destroy()]);
    },
  };
}

export async function newKey(db: Database, expiresIn: number | null = null): Promise<string> {
  const { secret } = await createKey(db, {
    account: 'tester',
    name: 'test',
    environment: 'test',
    expiresIn,
    actor: 'test',
  });
  return secret;
}

export async function send(
  url: string,
  { method, headers, body, key }: RequestOptions = {},
): Promise<Answer> {
  const hasBody = body !== undefined;
  const response = await fetch(url, {
    method: method ?? (hasBody ? 'POST' : 'GET'),
    headers: {
      ...(key && { authorization: `Bearer ${key}` }),
      ...(hasBody && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(hasBody && { body: typeof body === 'string' || isBytes(body) ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json') && text !== '';
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isJson ? JSON.parse(text) : undefined,
  };
}

function isBytes(body: unknown): body is Uint8Array<ArrayBuffer> {
  return body instanceof Uint8Array;
}
