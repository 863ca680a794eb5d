import { sql } from 'kysely';
import type { Database } from '../src/db/database.ts';

export const STATUSES = ['available', 'pending', 'sold', null] as const;

export interface SeededPet {
  id: number;
  name: string;
  categoryId: number;
  status?: (typeof STATUSES)[number] | undefined;
}

const BATCH = 50_000;

/** The animal of an id, computed here and in SQL alike, so that each answer can be checked. Statuses look random. */
export function seededPet(id: number): SeededPet {
  return {
    id,
    name: `Animal ${id}`,
    categoryId: (id * 7919) % 100_000,
    status: STATUSES[((id * 7919) % 100_003) % STATUSES.length],
  };
}

/** Fills the empty table with the animals of ids 1 to `rows`. */
export async function seed(db: Database, rows: number, onProgress: (done: number) => void): Promise<void> {
  for (let first = 1; first <= rows; first += BATCH) {
    const last = Math.min(first + BATCH - 1, rows);
    await sql`
      INSERT INTO pets (id, name, category_id, status)
      SELECT n, 'Animal ' || n, n * 7919 % 100000,
             (ARRAY['available', 'pending', 'sold', NULL])[n * 7919 % 100003 % 4 + 1]
      FROM generate_series(${sql.lit(first)}::bigint, ${sql.lit(last)}::bigint) n`.execute(db);
    onProgress(last);
  }
  await sql`SELECT setval('pets_id_seq', ${sql.lit(rows)})`.execute(db);
  await sql`VACUUM (ANALYZE) pets`.execute(db);
}
