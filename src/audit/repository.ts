import type { Insertable } from 'kysely';
import type { Database } from '../db/database.ts';
import type { Tables } from '../db/schema.ts';

/** Leaves a row in the append-only audit table. Give it the transaction of the act itself. */
export async function insertAuditEvent(
  transaction: Database,
  event: Insertable<Tables['audit_events']>,
): Promise<void> {
  await transaction.insertInto('audit_events').values(event).execute();
}
