import type { Database } from '../db/database.ts';
import { knowOutcome } from '../db/errors.ts';
import type { NewPet, Pet, PetStatus } from './schemas.ts';

interface PetRow {
  id: bigint;
  name: string;
  categoryId: bigint;
  status: PetStatus | null;
}

const petColumns = ['id', 'name', 'category_id as categoryId', 'status'] as const;

export interface PageRequest {
  limit: number;
  status?: PetStatus | undefined;
  /** Only animals with a lower id than this: the last one of the page before. */
  before?: bigint | undefined;
}

/** A page of animals, newest first: a range of one index, however rare the status and however deep the page. */
export async function listPets(db: Database, page: PageRequest): Promise<Pet[]> {
  const rows = await petsQuery(db, page).execute();
  return rows.map(toPet);
}

/**
 * The statement of `listPets`. With `status = $1 ORDER BY id` the planner may walk the primary key and discard every
 * row of another status. Both a range of the status and an order by it leave it only the index on (status, id).
 */
export function petsQuery(db: Database, { limit, status, before }: PageRequest) {
  let query = db.selectFrom('pets').select(petColumns).limit(limit);
  if (status === undefined) {
    query = query.orderBy('id', 'desc');
    return before === undefined ? query : query.where('id', '<', before);
  }
  query = query.where('status', '>=', status).orderBy('status', 'desc').orderBy('id', 'desc');
  return before === undefined
    ? query.where('status', '<=', status)
    : query.where((eb) => eb(eb.refTuple('status', 'id'), '<', eb.tuple(status, before)));
}

/** Adds an animal, and gives it back as stored, once the insert has committed. @throws OutcomeUnknown */
export async function createPet(db: Database, { name, categoryId, status }: NewPet): Promise<Pet> {
  const insert = db
    .insertInto('pets')
    .values({ name, category_id: categoryId, status: status ?? null })
    .returning(petColumns);
  const row = await knowOutcome(insert.executeTakeFirstOrThrow());
  return toPet(row);
}

export async function findPet(db: Database, id: bigint): Promise<Pet | undefined> {
  const row = await db.selectFrom('pets').select(petColumns).where('id', '=', id).executeTakeFirst();
  return row && toPet(row);
}

/** The interface leaves a status out where none was given. */
function toPet({ status, ...pet }: PetRow): Pet {
  return status === null ? pet : { ...pet, status };
}
