import { writeFile } from 'node:fs/promises';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { buildApp } from '../app.ts';
import { loadConfig } from '../config.ts';
import { openDatabase } from '../db/database.ts';

/** `npm run openapi`: writes the document that the service serves to `openapi.json`. It needs no database. */

const config = loadConfig({ DATABASE_URL: 'postgres://localhost/unused' });
const logger = pino({ level: 'silent' });
const app = await buildApp({ config, db: openDatabase(config, logger), logger, registry: new Registry() });
await app.ready();
const document = `${JSON.stringify(app.swagger(), null, 2)}\n`;
await writeFile(new URL('../../openapi.json', import.meta.url), document);
