import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ChaosPostgres } from './chaos-postgres.ts';
import type { ServiceProcess } from './service-process.ts';

const PAUSE_AFTER_REFUSAL_MS = 50;
const STATUSES = ['available', 'pending', 'sold', undefined];

/** What clients were told of what they wrote; each text was written once, or repeated with the same Idempotency-Key. */
export interface WriteRecord {
  /** The bodies of 201 and 202, by the text that was written. */
  acknowledged: Map<string, unknown>;
  /** Texts that were said not to be stored. */
  refused: string[];
  /** Texts of which the outcome is unknown, or to which there was no answer, and which were not repeated. */
  unknown: string[];
  /** How many requests had no answer, since the service was gone. */
  unanswered: number;
  /** How often an Idempotency-Key was sent again. */
  repeated: number;
  /** Answers that no client must see. */
  unexpected: unknown[];
}

/**
 * Has clients write one after the other without pause: animals and messages, with an Idempotency-Key and without.
 *
 * @param service gives the process to write to; another one, once that was replaced
 */
export function startWriting(service: () => ServiceProcess, { clients }: { clients: number }) {
  const record: WriteRecord = {
    acknowledged: new Map(),
    refused: [],
    unknown: [],
    unanswered: 0,
    repeated: 0,
    unexpected: [],
  };
  let isOver = false;

  /** @returns what became of the text */
  async function attempt(
    text: string,
    index: number,
    headers: Record<string, string>,
  ): Promise<'acknowledged' | 'refused' | 'unknown'> {
    const isMessage = index % 2 === 1;
    const [target, body] = isMessage
      ? ['/quickstart/messages', { message: text }]
      : ['/v1/pets', { name: text, categoryId: index, status: STATUSES[index % STATUSES.length] }];
    const answer = await service()
      .request(target, { body, headers })
      .catch(() => undefined);
    if (answer === undefined) {
      record.unanswered++;
      return 'unknown';
    }
    if (answer.status === (isMessage ? 202 : 201)) {
      record.acknowledged.set(text, answer.json);
      return 'acknowledged';
    }
    const { code } = Object(answer.json);
    const isRefusal = answer.status === 503 && /^[1-9]\d*$/.test(answer.headers.get('retry-after') ?? '');
    if (isRefusal && code === 'unavailable') return 'refused';
    if (isRefusal && code === 'outcome_unknown') return 'unknown';
    record.unexpected.push({ status: answer.status, headers: [...answer.headers], text: answer.text });
    return 'unknown';
  }

  async function write(client: number): Promise<void> {
    for (let count = 0; !isOver; count++) {
      const text = `client ${client}, ${count}`;
      const index = client + count;
      const hasKey = client % 2 === 1;
      const headers: Record<string, string> = hasKey ? { 'idempotency-key': randomUUID() } : {};
      let outcome = await attempt(text, index, headers);
      if (outcome === 'refused') record.refused.push(text);
      if (outcome === 'unknown' && !hasKey) record.unknown.push(text);
      if (outcome !== 'acknowledged') await sleep(PAUSE_AFTER_REFUSAL_MS);
      while (outcome === 'unknown' && hasKey) {
        // From here on a refusal only says that the repetition stored nothing.
        record.repeated++;
        if ((await attempt(text, index, headers)) === 'acknowledged') outcome = 'acknowledged';
        else await sleep(PAUSE_AFTER_REFUSAL_MS);
      }
    }
  }

  const writers = Array.from({ length: clients }, (_, client) => write(client));
  return {
    record,
    /** Ends the writing, once each text with an Idempotency-Key has been acknowledged or refused. */
    stop: async () => {
      isOver = true;
      await Promise.all(writers);
      return record;
    },
  };
}

interface StoredText {
  text: string;
  /** As the service answers it. */
  body: unknown;
}

/** Holds the tables to what clients were told. */
export async function expectKept(record: WriteRecord, postgres: ChaosPostgres): Promise<void> {
  const rows = await postgres.query<StoredText>(`
    SELECT name AS text, json_strip_nulls(json_build_object(
      'id', id, 'name', name, 'categoryId', category_id, 'status', status)) AS body FROM pets
    UNION ALL
    SELECT message, json_build_object(
      'id', 'msg_' || id, 'message', message, 'status', status,
      'createdAt', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) FROM messages`);
  const stored = Map.groupBy(rows, ({ text }) => text);
  const bodiesOf = (text: string) => stored.get(text)?.map(({ body }) => body) ?? [];

  expect(record.unexpected).toEqual([]);
  for (const [text, body] of record.acknowledged)
    expect(bodiesOf(text), `acknowledged: ${text}`).toEqual([body]);
  expect(record.refused.filter((text) => stored.has(text))).toEqual([]);
  expect(record.unknown.filter((text) => bodiesOf(text).length > 1)).toEqual([]);

  const written = new Set([...record.acknowledged.keys(), ...record.unknown]);
  expect([...stored.keys()].filter((text) => !written.has(text))).toEqual([]);
}
