import type { Database } from '../db/database.ts';

export interface Account {
  id: string;
  name: string;
}

/** Adds an account, unless there is one of that name: then the answer is undefined. */
export function insertAccount(db: Database, name: string): Promise<Account | undefined> {
  return db
    .insertInto('accounts')
    .values({ name })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .returning(['id', 'name'])
    .executeTakeFirst();
}

export function findAccount(db: Database, name: string): Promise<Account | undefined> {
  return db.selectFrom('accounts').select(['id', 'name']).where('name', '=', name).executeTakeFirst();
}
