import { and, desc, eq, gt, isNull, lt, or, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { bigint, customType, pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core';
import pg from 'pg';
import { serve } from './express-app.ts';
import { petStatuses, toPet } from './protocol.ts';

const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' });

const pets = pgTable('pets', {
  id: bigint({ mode: 'number' }).primaryKey().generatedByDefaultAsIdentity(),
  name: text().notNull(),
  categoryId: bigint('category_id', { mode: 'number' }).notNull(),
  status: text({ enum: petStatuses }),
});

const apiKeys = pgTable('api_keys', {
  id: uuid().primaryKey(),
  hash: bytea().notNull().unique(),
  expiresAt: timestamp('expires_at', { withTimezone: true }),
  revokedAt: timestamp('revoked_at', { withTimezone: true }),
});

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const db = drizzle(pool);

serve({
  async findKey(hash) {
    const [key] = await db
      .select({ id: apiKeys.id })
      .from(apiKeys)
      .where(
        and(
          eq(apiKeys.hash, hash),
          isNull(apiKeys.revokedAt),
          or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, sql`now()`)),
        ),
      )
      .limit(1);
    return key;
  },

  async listPets({ limit, status, before }) {
    const rows = await db
      .select()
      .from(pets)
      .where(
        and(
          status === undefined ? undefined : eq(pets.status, status),
          before === undefined ? undefined : lt(pets.id, before),
        ),
      )
      .orderBy(desc(pets.id))
      .limit(limit);
    return rows.map(toPet);
  },

  async findPet(id) {
    const [row] = await db.select().from(pets).where(eq(pets.id, id)).limit(1);
    return row && toPet(row);
  },

  async createPet(pet) {
    const [row] = await db.insert(pets).values(pet).returning();
    if (row === undefined) throw new Error('INSERT ... RETURNING gives a row');
    return toPet(row);
  },

  close: () => pool.end(),
});
