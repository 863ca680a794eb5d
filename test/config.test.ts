import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { describe, expect, test } from 'vitest';
import { ConfigError, loadConfig } from '../src/config.ts';

const DATABASE_URL = 'postgres://user:pass%40word@db.example.com:5432/store';
const load = (settings: Record<string, string>) => loadConfig({ DATABASE_URL, ...settings });

describe('the configuration', () => {
  test('has the documented defaults', () => {
    expect(load({})).toEqual({
      databaseUrl: DATABASE_URL,
      databasePoolSize: 10,
      databasePreparedStatements: true,
      host: '127.0.0.1',
      port: 3000,
      opsPort: 9464,
      maxConnections: 5000,
      requestTimeoutMs: 10_000,
      requestDeadlineMs: 5000,
      rateLimitPerMinute: 0,
      shutdownPauseMs: 1000,
      shutdownTimeoutMs: 25_000,
      logLevel: 'info',
      keyEnvironment: 'live',
      corsOrigins: [],
    });
  });

  test('.env.example holds every setting, with its default', () => {
    const example = parseEnv(readFileSync(new URL('../.env.example', import.meta.url), 'utf8'));
    expect(Object.keys(example)).toHaveLength(Object.keys(load({})).length);
    expect(loadConfig(example)).toEqual({ ...load({}), databaseUrl: example.DATABASE_URL });
  });

  test('an empty variable counts as absent', () => {
    expect(load({ PORT: '', LOG_LEVEL: '', CORS_ORIGINS: '' })).toEqual(load({}));
  });

  test('takes good values', () => {
    expect(
      load({ PORT: '0', OPS_PORT: '0', HOST: '::1', CORS_ORIGINS: 'https://a.example, http://b:8080' }),
    ).toMatchObject({
      ...{ port: 0, opsPort: 0, host: '::1' },
      corsOrigins: ['https://a.example', 'http://b:8080'],
    });
  });

  test.each([
    ['on', true],
    ['off', false],
  ])('takes DATABASE_PREPARED_STATEMENTS=%s', (value, databasePreparedStatements) => {
    expect(load({ DATABASE_PREPARED_STATEMENTS: value })).toMatchObject({ databasePreparedStatements });
  });

  test('DATABASE_URL is required', () => {
    expect(() => loadConfig({})).toThrow(/^bad configuration: DATABASE_URL is required$/);
  });

  test.each([
    ['DATABASE_URL', 'mysql://localhost/db'],
    ['DATABASE_URL', 'localhost:5432'],
    ['DATABASE_URL', 'postgres://'],
    ['DATABASE_URL', 'postgres://host/store?sslmode=maybe'],
    ['DATABASE_URL', 'postgres://user:100%@host/store'],
    ['DATABASE_POOL_SIZE', '0'],
    ['REQUEST_DEADLINE_MS', '5s'],
    ['REQUEST_DEADLINE_MS', '999'],
    ['DATABASE_PREPARED_STATEMENTS', 'true'],
    ['DATABASE_PREPARED_STATEMENTS', '1'],
    ['DATABASE_PREPARED_STATEMENTS', 'ON'],
    ['DATABASE_PREPARED_STATEMENTS', 'off '],
    ['HOST', 'not a host'],
    ['PORT', '65536'],
    ['PORT', '-1'],
    ['PORT', '3000.5'],
    ['PORT', 'http'],
    ['PORT', '080'],
    ['OPS_PORT', '0x10'],
    ['OPS_PORT', '3000'],
    ['MAX_CONNECTIONS', '0'],
    ['REQUEST_TIMEOUT_MS', '99'],
    ['RATE_LIMIT_PER_MINUTE', '-1'],
    ['SHUTDOWN_PAUSE_MS', '1s'],
    ['SHUTDOWN_TIMEOUT_MS', '99'],
    ['SHUTDOWN_TIMEOUT_MS', '1000'],
    ['LOG_LEVEL', 'verbose'],
    ['LOG_LEVEL', 'INFO'],
    ['KEY_ENVIRONMENT', 'production'],
    ['CORS_ORIGINS', '*'],
    ['CORS_ORIGINS', 'https://a.example/path'],
    ['CORS_ORIGINS', 'https://a.example,'],
    ['CORS_ORIGINS', 'ftp://a.example'],
  ])('refuses %s=%s in one line that names it', (name, value) => {
    expect(() => load({ [name]: value })).toThrow(ConfigError);
    expect(() => load({ [name]: value })).toThrow(new RegExp(`^bad configuration: ${name} must .+$`));
  });

  test('names every bad variable at once, and no secret', () => {
    const bad = { DATABASE_URL: 'redis://user:secret@host', PORT: 'x', LOG_LEVEL: 'y' };
    expect(() => load(bad)).toThrow(/^(?!.*secret).*DATABASE_URL.*PORT.*LOG_LEVEL.*$/);
  });
});
