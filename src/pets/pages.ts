import { sql } from 'kysely';
import type { Database } from '../db/database.ts';
import { type PetRow, petColumns, toPet } from './rows.ts';
import { MAX_LIMIT, type Pet, type PetStatus } from './schemas.ts';

export interface PageRequest {
  limit: number;
  status?: PetStatus | undefined;
  /** The highest id that the page can hold. */
  from: bigint;
}

/** What a page is cut from. It may have been found for several requests, so it is not to be changed. */
export interface FoundPets {
  /** As many as the page can hold, newest first, and at least one more where there is one. */
  readonly pets: readonly Pet[];
  readonly isShared: boolean;
}

/**
 * The animals of a page, and one more that tells whether there is a next one. With `status = $1 ORDER BY id` the
 * planner may walk the primary key and discard every row of another status. Both a range of the status and an order by
 * it leave it only the index on (status, id).
 */
export function pageQuery({ limit, status, from }: PageRequest) {
  return status === undefined
    ? sql<PetRow>`
        SELECT ${petColumns} FROM pets
        WHERE id <= ${from}
        ORDER BY id DESC LIMIT ${limit + 1}`
    : sql<PetRow>`
        SELECT ${petColumns} FROM pets
        WHERE status >= ${status} AND (status, id) <= (${status}, ${from})
        ORDER BY status DESC, id DESC LIMIT ${limit + 1}`;
}

/** The animals of one of many pages, a column each: as rows they would cost the driver five times as much. */
interface PageColumns {
  /** Which of the pages it is, counted from 1. */
  page: number;
  ids: bigint[];
  names: string[];
  categoryIds: bigint[];
  /** Only where the page is not of one status. */
  statuses: (PetStatus | null)[] | null;
}

/**
 * `pageQuery` for many pages; one without animals has no row. Inside the limit of each page stands one that is constant:
 * where a limit is not known, the planner expects a tenth of the table, and compiles the statement for that.
 */
export function manyPagesQuery(pages: readonly PageRequest[]) {
  const statuses = pages.map(({ status }) => status ?? null);
  const beginnings = pages.map(({ from }) => from);
  const limits = pages.map(({ limit }) => limit + 1);
  const longest = sql.lit(MAX_LIMIT + 1);
  return sql<PageColumns>`
    SELECT wanted.page::int, found.*
    FROM unnest(${statuses}::text[], ${beginnings}::bigint[], ${limits}::int[])
      WITH ORDINALITY AS wanted (status, beginning, length, page)
    CROSS JOIN LATERAL (
      SELECT array_agg(id) AS ids, array_to_json(array_agg(name)) AS names,
             array_agg(category_id) AS "categoryIds",
             array_to_json(array_agg(status) FILTER (WHERE wanted.status IS NULL)) AS statuses
      FROM (
        (SELECT * FROM (
           SELECT id, name, category_id, status FROM pets
           WHERE wanted.status IS NULL AND id <= wanted.beginning
           ORDER BY id DESC LIMIT ${longest}) AS longest
         LIMIT wanted.length)
        UNION ALL
        (SELECT * FROM (
           SELECT id, name, category_id, status FROM pets
           WHERE status >= wanted.status AND (status, id) <= (wanted.status, wanted.beginning)
           ORDER BY status DESC, id DESC LIMIT ${longest}) AS longest
         LIMIT wanted.length)
      ) AS pet
    ) AS found
    WHERE found.ids IS NOT NULL`;
}

export async function listPets(db: Database, page: PageRequest): Promise<FoundPets> {
  const { rows } = await pageQuery(page).execute(db);
  return { pets: rows.map(toPet), isShared: false };
}

/** Pages that begin at the same animal and have the same status are read once, at the largest limit. */
export async function listManyPets(db: Database, pages: readonly PageRequest[]): Promise<FoundPets[]> {
  const stretches = groupByBeginning(pages);
  const found = await selectPages(
    db,
    stretches.map(({ longest }) => longest),
  );
  const answers: FoundPets[] = [];
  for (const [index, { callers }] of stretches.entries()) {
    const shared = { pets: found[index] ?? [], isShared: callers.length > 1 };
    for (const caller of callers) answers[caller] = shared;
  }
  return answers;
}

interface Stretch {
  /** Of the pages that begin here, the one with the largest limit. */
  longest: PageRequest;
  /** The indexes of those pages. */
  callers: number[];
}

function groupByBeginning(pages: readonly PageRequest[]): Stretch[] {
  const stretches = new Map<PetStatus | undefined, Map<bigint, Stretch>>();
  for (const [caller, page] of pages.entries()) {
    const ofStatus = stretches.get(page.status) ?? new Map<bigint, Stretch>();
    stretches.set(page.status, ofStatus);
    const stretch = ofStatus.get(page.from);
    if (stretch === undefined) {
      ofStatus.set(page.from, { longest: page, callers: [caller] });
    } else {
      stretch.callers.push(caller);
      if (page.limit > stretch.longest.limit) stretch.longest = page;
    }
  }
  return [...stretches.values()].flatMap((ofStatus) => [...ofStatus.values()]);
}

async function selectPages(db: Database, requests: readonly PageRequest[]): Promise<(readonly Pet[])[]> {
  const [first] = requests;
  if (first !== undefined && requests.length === 1) return [(await listPets(db, first)).pets];
  const { rows } = await manyPagesQuery(requests).execute(db);
  const found = new Map(rows.map((columns) => [columns.page, columns]));
  return requests.map(({ status }, index) => {
    const columns = found.get(index + 1);
    return columns === undefined ? [] : toPets(columns, status);
  });
}

function toPets({ ids, names, categoryIds, statuses }: PageColumns, wanted: PetStatus | undefined): Pet[] {
  return ids.map((id, row) => {
    const [name, categoryId, status] = [names[row], categoryIds[row], wanted ?? statuses?.[row]];
    if (name === undefined || categoryId === undefined || status === undefined) {
      throw new Error('the columns of a page differ in length');
    }
    return toPet({ id, name, categoryId, status });
  });
}
