import { CompiledQuery, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../src/db/database.ts';
import { type PageRequest, petsQuery } from '../src/pets/repository.ts';
import { connect, createDatabase } from './support/database.ts';

/** The statuses of a million animals, as SQL over their number n. */
const DISTRIBUTIONS = {
  'clustered statuses': `CASE WHEN n <= 500000 THEN 'available' ELSE 'sold' END`,
  'a rare status': `CASE WHEN n IN (3, 17, 999000) THEN 'pending' WHEN n % 10 = 0 THEN NULL ELSE 'available' END`,
};

const ROWS = 1_000_000;
/** Pages of index and table for 21 animals, wherever they lie, with some room. */
const MOST_BUFFERS = 60;

describe.each(Object.entries(DISTRIBUTIONS))(
  'a page of 1,000,000 animals with %s is an index range scan',
  (_what, status) => {
    let db: Database;
    beforeAll(async () => {
      db = connect(await createDatabase());
      await sql`
      INSERT INTO pets (name, category_id, status)
      SELECT 'pet', n, ${sql.raw(status)} FROM generate_series(1, ${sql.lit(ROWS)}) n`.execute(db);
      await sql`ANALYZE pets`.execute(db);
    });
    afterAll(() => db.destroy());

    const filters = [undefined, 'available', 'pending', 'sold'] as const;
    const depths = [undefined, 999_990n, 500_000n, 20n];
    const pages = filters.flatMap((filter) =>
      depths.map((before): PageRequest => ({ limit: 21, status: filter, before })),
    );

    test.each(['force_custom_plan', 'force_generic_plan'])(
      'with %s, at every depth and for every status',
      async (mode) => {
        await db.connection().execute(async (connection) => {
          await sql`SET plan_cache_mode = ${sql.lit(mode)}`.execute(connection);
          for (const page of pages) {
            const { nodes, buffers, discarded } = await explain(connection, page);
            expect({ page, nodes }).toEqual({
              page,
              nodes: ['Limit', expect.stringMatching(/^Index (Only )?Scan$/)],
            });
            expect({ page, discarded }).toEqual({ page, discarded: 0 });
            expect(buffers).toBeLessThan(MOST_BUFFERS);
          }
        });
      },
    );
  },
);

interface PlanNode {
  'Node Type': string;
  'Rows Removed by Filter'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: PlanNode[];
}

/** Runs a page as a prepared statement, as pg does, and tells how PostgreSQL went about it. */
async function explain(connection: Database, page: PageRequest) {
  const { sql: text, parameters } = petsQuery(connection, page).compile();
  const types = parameters.map((parameter) => (typeof parameter === 'string' ? 'text' : 'bigint'));
  const values = parameters.map((parameter) =>
    typeof parameter === 'string' ? `'${parameter}'` : parameter,
  );
  await connection.executeQuery(CompiledQuery.raw(`PREPARE page (${types.join(', ')}) AS ${text}`));
  const { rows } = await connection.executeQuery<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    CompiledQuery.raw(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE page (${values.join(', ')})`),
  );
  await connection.executeQuery(CompiledQuery.raw('DEALLOCATE page'));
  const nodes: PlanNode[] = [];
  for (let node = rows[0]?.['QUERY PLAN'][0].Plan; node !== undefined; node = node.Plans?.[0])
    nodes.push(node);
  const [root] = nodes;
  return {
    nodes: nodes.map((node) => node['Node Type']),
    discarded: nodes.reduce((sum, node) => sum + (node['Rows Removed by Filter'] ?? 0), 0),
    buffers: (root?.['Shared Hit Blocks'] ?? 0) + (root?.['Shared Read Blocks'] ?? 0),
  };
}
