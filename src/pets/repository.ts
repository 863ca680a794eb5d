import { type RawBuilder, sql } from 'kysely';
import { attemptRead, attemptWrite } from '../db/attempts.ts';
import { Batcher } from '../db/batch.ts';
import type { Database } from '../db/database.ts';
import { creationOnce, type IdempotencyKey, type KeyedCreation } from '../idempotency/creation.ts';
import { keyColumns } from '../idempotency/repository.ts';
import { type FoundPets, listManyPets, listPets, type PageRequest } from './pages.ts';
import { type PetRow, petColumns, toPet } from './rows.ts';
import type { NewPet, Pet } from './schemas.ts';

/**
 * The animals of a database. Calls that come in at the same time share statements. Each says when its statement must
 * have begun, on the clock of `performance.now()`.
 */
export interface PetRepository {
  /** A page: always a range of one index, however rare the status and however deep the page. */
  list(page: PageRequest, startBy: number): Promise<FoundPets>;
  /** An animal by its id. */
  find(id: bigint, startBy: number): Promise<Pet | undefined>;
  /**
   * Adds an animal, and gives it back as stored, once the insert has committed; under a key that was used before, the
   * animal that was added then.
   *
   * @throws OutcomeUnknown
   * @throws ApiError `idempotency_key_reused` where that animal differs
   */
  create(pet: NewPet, idempotencyKey: IdempotencyKey | undefined, startBy: number): Promise<Pet>;
}

export function createPetRepository(db: Database): PetRepository {
  const lists = new Batcher<PageRequest, FoundPets>({
    one: (page) => attemptRead(() => listPets(db, page)),
    many: (pages) => attemptRead(() => listManyPets(db, pages)),
  });
  const reads = new Batcher<bigint, Pet | undefined>({
    one: (id) => attemptRead(() => findPet(db, id)),
    many: (ids) => attemptRead(() => findManyPets(db, ids)),
  });
  const creations = new Batcher<NewPet, Pet>({
    one: (pet) => attemptWrite(() => createPet(db, pet)),
    many: (pets) => attemptWrite(() => createManyPets(db, pets)),
  });
  const createOnce = creationOnce<NewPet, Pet>({
    db,
    operation: 'createPet',
    meaning: ({ name, categoryId, status = null }) => [name, `${categoryId}`, status],
    insert: (keyed, claim) => createKeyedPets(db, keyed, claim),
    find: (id, startBy) => reads.call(BigInt(id), startBy),
  });
  return {
    list: (page, startBy) => lists.call(page, startBy),
    find: (id, startBy) => reads.call(id, startBy),
    create: (pet, idempotencyKey, startBy) =>
      idempotencyKey === undefined ? creations.call(pet, startBy) : createOnce(pet, idempotencyKey, startBy),
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
  const { names, categoryIds, statuses } = columnsOf(pets);
  const { rows } = await sql<NumberedId>`
    WITH given AS MATERIALIZED (
      SELECT nextval('pets_id_seq') AS id, name, category_id, status, number
      FROM unnest(${names}::text[], ${categoryIds}::bigint[], ${statuses}::text[])
        WITH ORDINALITY AS pet (name, category_id, status, number)
    ), inserted AS (
      INSERT INTO pets (id, name, category_id, status) SELECT id, name, category_id, status FROM given
    )
    SELECT id, number::int FROM given`.execute(db);
  const created = withIds(pets, rows);
  if (!created.every((pet) => pet !== undefined)) throw new Error('an insert gave no id for one of its rows');
  return created;
}

/** The same with the keys of the animals: those whose key is taken are not stored. */
async function createKeyedPets(
  db: Database,
  creations: readonly KeyedCreation<NewPet>[],
  claim: RawBuilder<unknown>,
): Promise<(Pet | undefined)[]> {
  const pets = creations.map(({ resource }) => resource);
  const { names, categoryIds, statuses } = columnsOf(pets);
  const { accountIds, keys, fingerprints } = keyColumns(creations);
  const { rows } = await sql<NumberedId>`
    WITH given AS MATERIALIZED (
      SELECT nextval('pets_id_seq') AS id, name, category_id, status, account_id, key, fingerprint, number
      FROM unnest(${names}::text[], ${categoryIds}::bigint[], ${statuses}::text[],
                  ${accountIds}::uuid[], ${keys}::text[], ${fingerprints}::bytea[])
        WITH ORDINALITY AS pet (name, category_id, status, account_id, key, fingerprint, number)
    ), claimed AS (${claim}
    ), stored AS (
      SELECT given.* FROM given JOIN claimed ON claimed.resource_id = given.id::text
    ), inserted AS (
      INSERT INTO pets (id, name, category_id, status)
      SELECT id, name, category_id, status FROM stored
    )
    SELECT id, number::int FROM stored`.execute(db);
  return withIds(pets, rows);
}

function columnsOf(pets: readonly NewPet[]) {
  return {
    names: pets.map(({ name }) => name),
    categoryIds: pets.map(({ categoryId }) => categoryId),
    statuses: pets.map(({ status }) => status ?? null),
  };
}

interface NumberedId {
  id: bigint;
  /** Which of the animals of the statement it is of, counted from 1. */
  number: number;
}

/** The animals as stored; undefined where one got no id. */
function withIds(pets: readonly NewPet[], rows: readonly NumberedId[]): (Pet | undefined)[] {
  const ids = new Map(rows.map(({ id, number }) => [number, id]));
  return pets.map(({ name, categoryId, status = null }, index) => {
    const id = ids.get(index + 1);
    return id === undefined ? undefined : toPet({ id, name, categoryId, status });
  });
}
