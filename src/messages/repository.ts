import { randomUUIDv7 } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { attemptRead, attemptWrite } from '../db/attempts.ts';
import { Batcher } from '../db/batch.ts';
import type { Database } from '../db/database.ts';
import { creationOnce, type IdempotencyKey, type KeyedCreation } from '../idempotency/creation.ts';
import { keyColumns } from '../idempotency/repository.ts';
import type { Message } from './schemas.ts';

/** The messages of a database. Calls that come in at the same time share statements. */
export interface MessageRepository {
  /**
   * Stores a text as queued, and gives the message back once the insert has committed; under a key that was used before,
   * the message that was stored then.
   *
   * @param startBy when its statement must have begun, on the clock of `performance.now()`
   * @throws OutcomeUnknown
   * @throws ApiError `idempotency_key_reused` where that message differs
   */
  create(text: string, idempotencyKey: IdempotencyKey | undefined, startBy: number): Promise<Message>;
}

export function createMessageRepository(db: Database): MessageRepository {
  const creations = new Batcher<string, Message>({
    many: (texts) => attemptWrite(() => insertMessages(db, texts)),
  });
  const reads = new Batcher<string, Message | undefined>({
    many: (ids) => attemptRead(() => findMessages(db, ids)),
  });
  const createOnce = creationOnce<string, Message>({
    db,
    operation: 'createMessage',
    meaning: (text) => [text],
    insert: (keyed, claim) => insertKeyedMessages(db, keyed, claim),
    find: (id, startBy) => reads.call(id, startBy),
  });
  return {
    create: (text, idempotencyKey, startBy) =>
      idempotencyKey === undefined
        ? creations.call(text, startBy)
        : createOnce(text, idempotencyKey, startBy),
  };
}

interface MessageRow {
  id: string;
  message: string;
  createdAt: Date;
}

function toMessage({ id, message, createdAt }: MessageRow): Message {
  return { id: `msg_${id}`, message, status: 'queued', createdAt: createdAt.toISOString() };
}

async function findMessages(db: Database, ids: readonly string[]): Promise<(Message | undefined)[]> {
  const { rows } = await sql<MessageRow>`
    SELECT id, message, created_at AS "createdAt" FROM messages WHERE id = any(${ids}::uuid[])`.execute(db);
  const messages = new Map(rows.map((row) => [row.id, toMessage(row)]));
  return ids.map((id) => messages.get(id));
}

/** One insert and one commit for all; each row is matched to its text by its id. */
async function insertMessages(db: Database, texts: readonly string[]): Promise<Message[]> {
  const ids = texts.map(() => randomUUIDv7());
  const { rows } = await sql<StoredMessage>`
    INSERT INTO messages (id, message, status)
    SELECT id, message, 'queued' FROM unnest(${ids}::uuid[], ${texts}::text[]) AS given (id, message)
    RETURNING id, created_at AS "createdAt"`.execute(db);
  const stored = withTimes(ids, texts, rows);
  if (!stored.every((message) => message !== undefined)) throw new Error('an insert lacks one of its rows');
  return stored;
}

/** The same with the keys of the messages: those whose key is taken are not stored. */
async function insertKeyedMessages(
  db: Database,
  creations: readonly KeyedCreation<string>[],
  claim: RawBuilder<unknown>,
): Promise<(Message | undefined)[]> {
  const texts = creations.map(({ resource }) => resource);
  const ids = texts.map(() => randomUUIDv7());
  const { accountIds, keys, fingerprints } = keyColumns(creations);
  const { rows } = await sql<StoredMessage>`
    WITH given AS (
      SELECT id, message, account_id, key, fingerprint, number
      FROM unnest(${ids}::uuid[], ${texts}::text[],
                  ${accountIds}::uuid[], ${keys}::text[], ${fingerprints}::bytea[])
        WITH ORDINALITY AS message (id, message, account_id, key, fingerprint, number)
    ), claimed AS (${claim}
    )
    INSERT INTO messages (id, message, status)
    SELECT id, message, 'queued' FROM given JOIN claimed ON claimed.resource_id = given.id::text
    RETURNING id, created_at AS "createdAt"`.execute(db);
  return withTimes(ids, texts, rows);
}

interface StoredMessage {
  id: string;
  createdAt: Date;
}

/** The messages as stored; undefined where one was not. */
function withTimes(
  ids: readonly string[],
  texts: readonly string[],
  rows: readonly StoredMessage[],
): (Message | undefined)[] {
  const times = new Map(rows.map(({ id, createdAt }) => [id, createdAt]));
  return texts.map((message, index) => {
    const id = ids[index] ?? '';
    const createdAt = times.get(id);
    return createdAt === undefined ? undefined : toMessage({ id, message, createdAt });
  });
}
