import { randomUUIDv7 } from 'node:crypto';
import type { Database } from '../db/database.ts';
import { knowOutcome } from '../db/errors.ts';
import type { Message } from './schemas.ts';

/** Stores a message as queued, and gives it back once the insert has committed. @throws OutcomeUnknown */
export async function createMessage(db: Database, text: string): Promise<Message> {
  const insert = db
    .insertInto('messages')
    .values({ id: randomUUIDv7(), message: text, status: 'queued' })
    .returning(['id', 'message', 'status', 'created_at as createdAt']);
  const { id, message, status, createdAt } = await knowOutcome(insert.executeTakeFirstOrThrow());
  return { id: `msg_${id}`, message, status, createdAt: createdAt.toISOString() };
}
