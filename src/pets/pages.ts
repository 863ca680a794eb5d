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
  /**
   * As many as the page can hold, newest first, and at least one more where there is one. Where it is shared, all get
   * the same array, by which its JSON is shared, too.
   */
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

/**
 * The animals of one of many pages, an array for each column: as rows they would cost the driver five times as much.
 * Text comes as JSON, since pg reads its arrays letter by letter; integers do not, to stay exact.
 */
interface PageColumns {
  /** Which of the pages it is, counted from 1. */
  page: number;
  ids: bigint[];
  names: string[];
  categoryIds: bigint[];
  /** Null where the page is of one status, which all of its animals have. */
  statuses: (PetStatus | null)[] | null;
}

/**
 * `pageQuery` for many pages; one without animals has no row. The planner does not know the length of a page: alone, it
 * would have it expect a tenth of the table, and compile the statement, which takes longer than to run it. So a constant
 * limit stands inside. Of the two branches one is empty, which keeps the animals in order for `array_agg`.
 */
export function manyPagesQuery(pages: readonly PageRequest[]) {
  const statuses = pages.map(({ status }) => status ?? null);
  const beginnings = pages.map(({ from }) => from);
  const lengths = pages.map(({ limit }) => limit + 1);
  const maxLength = sql.lit(MAX_LIMIT + 1);
  return sql<PageColumns>`
    SELECT wanted.page::int, found.*
    FROM unnest(${statuses}::text[], ${beginnings}::bigint[], ${lengths}::int[])
      WITH ORDINALITY AS wanted (status, beginning, length, page)
    CROSS JOIN LATERAL (
      SELECT array_agg(id) AS ids, array_to_json(array_agg(name)) AS names,
             array_agg(category_id) AS "categoryIds",
             array_to_json(array_agg(status) FILTER (WHERE wanted.status IS NULL)) AS statuses
      FROM (
        (SELECT * FROM (
           SELECT id, name, category_id, status FROM pets
           WHERE wanted.status IS NULL AND id <= wanted.beginning
           ORDER BY id DESC LIMIT ${maxLength}) AS longest_page
         ORDER BY id DESC LIMIT wanted.length)
        UNION ALL
        (SELECT * FROM (
           SELECT id, name, category_id, status FROM pets
           WHERE status >= wanted.status AND (status, id) <= (wanted.status, wanted.beginning)
           ORDER BY status DESC, id DESC LIMIT ${maxLength}) AS longest_page
         ORDER BY status DESC, id DESC LIMIT wanted.length)
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
  const groups = groupByBeginning(pages);
  const found = await selectPages(
    db,
    groups.map(({ longest }) => longest),
  );
  const answers: FoundPets[] = [];
  for (const [number, { indexes }] of groups.entries()) {
    const shared = { pets: found[number] ?? [], isShared: indexes.length > 1 };
    for (const index of indexes) answers[index] = shared;
  }
  return answers;
}

interface PageGroup {
  /** Of the pages that begin here, the one with the largest limit. */
  longest: PageRequest;
  /** Which of the requested pages those are. */
  indexes: number[];
}

function groupByBeginning(pages: readonly PageRequest[]): PageGroup[] {
  const groups = new Map<PetStatus | undefined, Map<bigint, PageGroup>>();
  for (const [index, page] of pages.entries()) {
    const ofStatus = groups.get(page.status) ?? new Map<bigint, PageGroup>();
    groups.set(page.status, ofStatus);
    const group = ofStatus.get(page.from);
    if (group === undefined) {
      ofStatus.set(page.from, { longest: page, indexes: [index] });
    } else {
      group.indexes.push(index);
      if (page.limit > group.longest.limit) group.longest = page;
    }
  }
  return [...groups.values()].flatMap((ofStatus) => [...ofStatus.values()]);
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

function toPets({ ids, names, categoryIds, statuses }: PageColumns, filter: PetStatus | undefined): Pet[] {
  return ids.map((id, row) => {
    const name = names[row];
    const categoryId = categoryIds[row];
    const status = filter ?? statuses?.[row];
    if (name === undefined || categoryId === undefined || status === undefined) {
      throw new Error('the columns of a page differ in length');
    }
    return toPet({ id, name, categoryId, status });
  });
}
