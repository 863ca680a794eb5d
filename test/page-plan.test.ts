import { CompiledQuery, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../src/db/database.ts';
import { HIGHEST_ID } from '../src/pets/cursor.ts';
import { listManyPets, listPets, manyPagesQuery, type PageRequest, pageQuery } from '../src/pets/pages.ts';
import { connect, createDatabase } from './support/database.ts';

/** The statuses of a million animals, as SQL over their number n. */
const DISTRIBUTIONS = {
  'clustered statuses': `CASE WHEN n <= 500000 THEN 'available' ELSE 'sold' END`,
  'a rare status': `CASE WHEN n IN (3, 17, 999000) THEN 'pending' WHEN n % 10 = 0 THEN NULL ELSE 'available' END`,
};

const ROWS = 1_000_000;
/** Pages of index and table for 21 animals, wherever they lie, with some room. */
const MOST_BUFFERS = 60;
/** Far below 100,000, `jit_above_cost`: above it PostgreSQL compiles a plan, which takes tens of milliseconds. */
const MOST_COST = 10_000;
/** Calls that one statement answers at the most. */
const MOST_PAGES = 256;

describe.each(Object.entries(DISTRIBUTIONS))('of 1,000,000 animals with %s', (_what, status) => {
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
  const depths = [HIGHEST_ID, 999_990n, 500_000n, 20n, 0n];
  const pages = filters.flatMap((filter) =>
    depths.map((from): PageRequest => ({ limit: 20, status: filter, from })),
  );
  const modes = ['force_custom_plan', 'force_generic_plan'];
  const inMode = <T>(mode: string, act: (connection: Database) => Promise<T>) =>
    db.connection().execute(async (connection) => {
      await sql`SET plan_cache_mode = ${sql.lit(mode)}`.execute(connection);
      return act(connection);
    });

  test.each(modes)(
    'a page is an index range scan with %s, at every depth and for every status',
    async (mode) => {
      await inMode(mode, async (connection) => {
        for (const page of pages) {
          const { nodes, buffers, discarded } = await explain(connection, pageQuery(page));
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

  test.each(modes)(
    'many pages are an index range scan each with %s, whatever their depths and statuses',
    async (mode) => {
      await inMode(mode, async (connection) => {
        const most = Array.from({ length: MOST_PAGES }, (_, n): PageRequest => {
          const depth = BigInt((n * 7919) % 1000) * 1000n;
          return { limit: 20, status: filters[n % filters.length], from: depth };
        });
        for (const many of [pages.slice(0, 2), pages, pages.toReversed(), most]) {
          const plan = await explain(connection, manyPagesQuery(many));
          expect(plan.tableScans).toEqual([
            expect.stringMatching(/^Index (Only )?Scan$/),
            expect.stringMatching(/^Index (Only )?Scan$/),
          ]);
          expect(plan.discarded).toBe(0);
          expect(plan.buffers).toBeLessThan(MOST_BUFFERS * many.length);
          expect(plan.cost).toBeLessThan(MOST_COST);
          expect(plan.compiled).toBe(false);
        }
      });
    },
  );

  test('many pages hold what the plain statement gives for each', async () => {
    const limits = [1, 2, 20, 99, 100];
    const many = pages.flatMap((page) => limits.map((limit) => ({ ...page, limit })));
    const found = await listManyPets(db, many);
    expect(found).toHaveLength(many.length);
    for (const [index, page] of many.entries()) {
      const { pets } = await listPets(db, page);
      expect({ page, pets: found[index]?.pets.slice(0, page.limit + 1) }).toEqual({ page, pets });
    }
  });
});

interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Total Cost': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: PlanNode[];
}

/** Runs a statement as a prepared one, as pg does, and tells how PostgreSQL went about it. */
async function explain(
  connection: Database,
  statement: { compile(executor: Database): Pick<CompiledQuery, 'sql' | 'parameters'> },
) {
  const { sql: text, parameters } = statement.compile(connection);
  const types = parameters.map((parameter) => (typeof parameter === 'bigint' ? 'bigint' : 'unknown'));
  const values = parameters.map(literal);
  await connection.executeQuery(CompiledQuery.raw(`PREPARE page (${types.join(', ')}) AS ${text}`));
  const { rows } = await connection.executeQuery<{ 'QUERY PLAN': [{ Plan: PlanNode; JIT?: unknown }] }>(
    CompiledQuery.raw(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE page (${values.join(', ')})`),
  );
  await connection.executeQuery(CompiledQuery.raw('DEALLOCATE page'));
  const explained = rows[0]?.['QUERY PLAN'][0];
  if (explained === undefined) throw new Error('EXPLAIN gives one row');
  const { Plan: root, JIT } = explained;
  const nodes = [root];
  for (const node of nodes) nodes.push(...(node.Plans ?? []));
  return {
    nodes: nodes.map((node) => node['Node Type']),
    tableScans: nodes.filter((node) => node['Relation Name'] === 'pets').map((node) => node['Node Type']),
    discarded: nodes.reduce(
      (sum, node) =>
        sum + (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0),
      0,
    ),
    buffers: root['Shared Hit Blocks'] + root['Shared Read Blocks'],
    cost: root['Total Cost'],
    compiled: JIT !== undefined,
  };
}

/** A value as SQL. An array becomes one of PostgreSQL's array literals, as the driver sends it. */
function literal(value: unknown): string {
  if (!Array.isArray(value)) return typeof value === 'string' ? `'${value}'` : String(value);
  return `'{${value.map((element) => (element === null ? 'NULL' : String(element))).join(',')}}'`;
}
