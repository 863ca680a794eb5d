import { randomUUIDv7 } from 'node:crypto';
import { sql } from 'kysely';
import { Batcher } from '../db/batch.ts';
import type { Database } from '../db/database.ts';
import { knowOutcome } from '../db/errors.ts';
import type { Message } from './schemas.ts';

/** The messages of a database. Calls that come in at the same time share statements. */
export interface MessageRepository {
  /** Stores a text as queued, and gives the message back once the insert has committed. @throws OutcomeUnknown */
  create(text: string): Promise<Message>;
}

/** @param maxWaitMs milliseconds after which a call that still waits for the database is refused */
export function createMessageRepository(db: Database, maxWaitMs: number): MessageRepository {
  const creations = new Batcher<string, Message>(
    {
      one: async (text) => {
        const [message] = await knowOutcome(insertMessages(db, [text]));
        if (message === undefined) throw new Error('an insert gave no row back');
        return message;
      },
      many: (texts) => knowOutcome(insertMessages(db, texts)),
    },
    maxWaitMs,
  );
  return { create: (text) => creations.call(text) };
}

/** One insert and one commit for all; each row is matched to its text by its id. */
async function insertMessages(db: Database, texts: readonly string[]): Promise<Message[]> {
  const messages = texts.map((message) => ({ id: randomUUIDv7(), message }));
  const ids = messages.map(({ id }) => id);
  const { rows } = await sql<{ id: string; createdAt: Date }>`
    INSERT INTO messages (id, message, status)
    SELECT id, message, 'queued' FROM unnest(${ids}::uuid[], ${texts}::text[]) AS given (id, message)
    RETURNING id, created_at AS "createdAt"`.execute(db);
  const times = new Map(rows.map(({ id, createdAt }) => [id, createdAt]));
  return messages.map(({ id, message }) => {
    const createdAt = times.get(id);
    if (createdAt === undefined) throw new Error('an insert gave no row for one of its messages');
    return { id: `msg_${id}`, message, status: 'queued', createdAt: createdAt.toISOString() };
  });
}
