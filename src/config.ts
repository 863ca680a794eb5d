const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
const KEY_ENVIRONMENTS = ['live', 'test'] as const;
const SWITCHES = ['on', 'off'] as const;

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];

export type LogLevel = (typeof LOG_LEVELS)[number];
export type KeyEnvironment = (typeof KEY_ENVIRONMENTS)[number];

/** Every setting of the service; `.env.example` says what each one is for. */
export interface Config {
  readonly databaseUrl: string;
  readonly databasePoolSize: number;
  /** Off for poolers that cannot keep them, such as PgBouncer before 1.21 in transaction mode. */
  readonly databasePreparedStatements: boolean;
  readonly host: string;
  readonly port: number;
  readonly opsPort: number;
  /** Connections of clients that are served at the same time. */
  readonly maxConnections: number;
  /** Milliseconds that a client has to send a whole request. */
  readonly requestTimeoutMs: number;
  /** Milliseconds that the service has to answer one; the time in which it is sent does not count. */
  readonly requestDeadlineMs: number;
  /** Requests that a key may make in a minute, by this process; 0 for any number. */
  readonly rateLimitPerMinute: number;
  /** Milliseconds from the signal to stop until no more connections are taken: for load balancers to notice. */
  readonly shutdownPauseMs: number;
  /** Milliseconds from the signal to stop until the process ends, come what may. */
  readonly shutdownTimeoutMs: number;
  readonly logLevel: LogLevel;
  readonly keyEnvironment: KeyEnvironment;
  /** Origins whose pages may call the service; none switches CORS off. */
  readonly corsOrigins: readonly string[];
}

/** The environment holds bad values; the message is one line that names each of them and its rule. */
export class ConfigError extends Error {}

/**
 * Reads the configuration from environment variables. An empty variable counts as absent.
 *
 * @throws ConfigError naming every variable that is missing or bad
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const problems: string[] = [];

  function read<T>(name: string, rule: string, parse: (text: string) => T | undefined, fallback: T): T {
    const text = env[name];
    if (text === undefined || text === '') return fallback;
    const value = parse(text);
    if (value === undefined) problems.push(`${name} must be ${rule}`);
    return value ?? fallback;
  }
  const integer = (name: string, minimum: number, maximum: number, fallback: number) =>
    read(
      name,
      `a whole number from ${minimum} to ${maximum}`,
      (text) => (/^(?:0|[1-9]\d{0,8})$/.test(text) ? within(Number(text), minimum, maximum) : undefined),
      fallback,
    );
  const oneOf = <const T extends string>(name: string, values: readonly T[], fallback: T) =>
    read(name, `one of ${values.join(', ')}`, (text) => values.find((value) => value === text), fallback);

  const config: Config = {
    databaseUrl: read(
      'DATABASE_URL',
      'a URL like postgres://user:password@host:5432/database (special characters percent-encoded)',
      postgresUrl,
      '',
    ),
    databasePoolSize: integer('DATABASE_POOL_SIZE', 1, 1000, 10),
    databasePreparedStatements: oneOf('DATABASE_PREPARED_STATEMENTS', SWITCHES, 'on') === 'on',
    host: read('HOST', 'a host name or an IP address', hostName, '127.0.0.1'),
    port: integer('PORT', 0, 65_535, 3000),
    opsPort: integer('OPS_PORT', 0, 65_535, 9464),
    maxConnections: integer('MAX_CONNECTIONS', 1, 1_000_000, 5000),
    requestTimeoutMs: integer('REQUEST_TIMEOUT_MS', 100, 600_000, 10_000),
    requestDeadlineMs: integer('REQUEST_DEADLINE_MS', 1000, 600_000, 5000),
    rateLimitPerMinute: integer('RATE_LIMIT_PER_MINUTE', 0, 100_000_000, 0),
    shutdownPauseMs: integer('SHUTDOWN_PAUSE_MS', 0, 600_000, 1000),
    shutdownTimeoutMs: integer('SHUTDOWN_TIMEOUT_MS', 100, 3_600_000, 25_000),
    logLevel: oneOf('LOG_LEVEL', LOG_LEVELS, 'info'),
    keyEnvironment: oneOf('KEY_ENVIRONMENT', KEY_ENVIRONMENTS, 'live'),
    corsOrigins: read(
      'CORS_ORIGINS',
      'origins like https://app.example.com, separated by commas',
      origins,
      [],
    ),
  };
  if (!env.DATABASE_URL) problems.unshift('DATABASE_URL is required');
  if (config.opsPort !== 0 && config.opsPort === config.port) problems.push('OPS_PORT must differ from PORT');
  if (config.shutdownTimeoutMs <= config.shutdownPauseMs) {
    problems.push('SHUTDOWN_TIMEOUT_MS must be more than SHUTDOWN_PAUSE_MS');
  }

  if (problems.length > 0) throw new ConfigError(`bad configuration: ${problems.join('; ')}`);
  return Object.freeze(config);
}

function within(value: number, minimum: number, maximum: number): number | undefined {
  return value >= minimum && value <= maximum ? value : undefined;
}

function postgresUrl(text: string): string | undefined {
  const url = URL.parse(text);
  const isPostgres = url?.protocol === 'postgres:' || url?.protocol === 'postgresql:';
  const namesSomething = Boolean(url?.hostname) || (url?.pathname.length ?? 0) > 1;
  const sslMode = url?.searchParams.get('sslmode') ?? 'prefer';
  const isGood = isPostgres && namesSomething && SSL_MODES.includes(sslMode) && isDecodable(text);
  return isGood ? text : undefined;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function hostName(text: string): string | undefined {
  return /^[\w.:%-]+$/.test(text) ? text : undefined;
}

function origins(text: string): readonly string[] | undefined {
  const listed = text.split(',').map((origin) => origin.trim());
  const isOrigin = (text: string) => /^https?:/.test(text) && URL.parse(text)?.origin === text;
  return listed.every(isOrigin) ? listed : undefined;
}
