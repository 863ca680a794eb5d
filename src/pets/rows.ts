import { sql } from 'kysely';
import type { Pet, PetStatus } from './schemas.ts';

/** An animal as statements give it. */
export interface PetRow {
  id: bigint;
  name: string;
  categoryId: bigint;
  status: PetStatus | null;
}

/** The columns of a `PetRow`. */
export const petColumns = sql.raw('id, name, category_id AS "categoryId", status');

/** The interface leaves a status out where none was given. */
export function toPet({ id, name, categoryId, status }: PetRow): Pet {
  return status === null ? { id, name, categoryId } : { id, name, categoryId, status };
}
