import type { Insertable } from 'kysely';
import type { Database } from '../db/database.ts';
import type { Tables } from '../db/schema.ts';

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

/** Leaves a row in the append-only audit table. Give it the transaction of the act itself. */
export async function insertAuditEvent(
  db: Database,
  event: Insertable<Tables['audit_events']>,
): Promise<void> {
  await db.insertInto('audit_events').values(event).execute();
}
