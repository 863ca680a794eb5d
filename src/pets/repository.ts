import { sql } from 'kysely';
import { Batcher } from '../db/batch.ts';
import type { Database } from '../db/database.ts';
import { knowOutcome } from '../db/errors.ts';
import { type FoundPets, listManyPets, listPets, type PageRequest } from './pages.ts';
import { type PetRow, petColumns, toPet } from './rows.ts';
import type { NewPet, Pet } from './schemas.ts';

/** The animals of a database. Calls that come in at the same time share statements. */
export interface PetRepository {
  /** A page: always a range of one index, however rare the status and however deep the page. */
  list(page: PageRequest): Promise<FoundPets>;
  /** An animal by its id. */
  find(id: bigint): Promise<Pet | undefined>;
  /** Adds an animal, and gives it back as stored, once the insert has committed. @throws OutcomeUnknown */
  create(pet: NewPet): Promise<Pet>;
}

/** @param maxWaitMs milliseconds after which a call that still waits for the database is refused */
export function createPetRepository(db: Database, maxWaitMs: number): PetRepository {
  const lists = new Batcher<PageRequest, FoundPets>(
    {
      one: (page) => listPets(db, page),
      many: (pages) => listManyPets(db, pages),
    },
    maxWaitMs,
  );
  const reads = new Batcher<bigint, Pet | undefined>(
    {
      one: (id) => findPet(db, id),
      many: (ids) => findManyPets(db, ids),
    },
    maxWaitMs,
  );
  const creations = new Batcher<NewPet, Pet>(
    {
      one: (pet) => knowOutcome(createPet(db, pet)),
      many: (pets) => knowOutcome(createManyPets(db, pets)),
    },
    maxWaitMs,
  );
  return {
    list: (page) => lists.call(page),
    find: (id) => reads.call(id),
    create: (pet) => creations.call(pet),
  };
}

async function findPet(db: Database, id: bigint): Promise<Pet | undefined> {
  const { rows } = await sql<PetRow>`SELECT ${petColumns} FROM pets WHERE id = ${id}`.execute(db);
  return rows.map(toPet)[0];
}

async function findManyPets(db: Database, ids: readonly bigint[]): Promise<(Pet | undefined)[]> {
  const { rows } = await sql<PetRow>`
    SELECT ${petColumns} FROM pets WHERE id = any(${ids}::bigint[])`.execute(db);
  const pets = new Map(rows.map((row) => [row.id, toPet(row)]));
  return ids.map((id) => pets.get(id));
}

async function createPet(db: Database, { name, categoryId, status }: NewPet): Promise<Pet> {
  const { rows } = await sql<PetRow>`
    INSERT INTO pets (name, category_id, status) VALUES (${name}, ${categoryId}, ${status ?? null})
    RETURNING ${petColumns}`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('an insert gave no row back');
  return toPet(row);
}

/** One insert and one commit for all. The ids are taken in the order of the animals, and matched to them by number. */
async function createManyPets(db: Database, pets: readonly NewPet[]): Promise<Pet[]> {
  const names = pets.map(({ name }) => name);
  const categoryIds = pets.map(({ categoryId }) => categoryId);
  const statuses = pets.map(({ status }) => status ?? null);
  const { rows } = await sql<{ id: bigint; number: number }>`
    WITH given AS MATERIALIZED (
      SELECT nextval('pets_id_seq') AS id, name, category_id, status, number
      FROM unnest(${names}::text[], ${categoryIds}::bigint[], ${statuses}::text[])
        WITH ORDINALITY AS pet (name, category_id, status, number)
    ), inserted AS (
      INSERT INTO pets (id, name, category_id, status) SELECT id, name, category_id, status FROM given
    )
    SELECT id, number::int FROM given`.execute(db);
  const ids = new Map(rows.map(({ id, number }) => [number, id]));
  return pets.map(({ name, categoryId, status = null }, index) => {
    const id = ids.get(index + 1);
    if (id === undefined) throw new Error('an insert gave no id for one of its rows');
    return toPet({ id, name, categoryId, status });
  });
}
