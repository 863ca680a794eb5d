import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { pino } from 'pino';
import { inject } from 'vitest';
import { type Database, openDatabase } from '../../src/db/database.ts';

/** The connection string of another database of the test server. */
export function urlOfDatabase(name: string): string {
  const url = new URL(inject('serverUrl'));
  url.pathname = `/${name}`;
  return url.href;
}

/** Makes a database of its own for a test: a clone of the migrated template, or an empty one. */
export async function createDatabase(kind: 'migrated' | 'empty' = 'migrated'): Promise<string> {
  const template = inject('template');
  const name = template.replace('template', randomBytes(4).toString('hex'));
  const client = new pg.Client({ connectionString: inject('serverUrl') });
  await client.connect();
  await client.query(`CREATE DATABASE ${name} TEMPLATE ${kind === 'migrated' ? template : 'template0'}`);
  await client.end();
  return urlOfDatabase(name);
}

/** Keeps everybody else from a table, until the function that it gives is called. */
export async function lockTable(databaseUrl: string, table: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  return () => client.end();
}

export function connect(databaseUrl: string): Database {
  const settings = { databaseUrl, databasePoolSize: 10, databaseTimeoutMs: 5000 };
  return openDatabase(settings, pino({ level: 'silent' }));
}
