import type { TSchema } from '@sinclair/typebox';
import type { FastifyReply } from 'fastify';

/** The JSON of rows, and of the arrays of their first ones, by length. */
interface Texts {
  readonly rows: readonly string[];
  readonly arrays: Map<number, string>;
}

const textsOf = new WeakMap<object, Texts>();

/**
 * Answers with a JSON array of the first `count` of rows that several requests may share: each row is serialised once,
 * and so is each array.
 *
 * @param schema of a row
 */
export function sendSharedRows<Row extends Record<string, unknown>>(
  reply: FastifyReply,
  { rows, count, schema }: { rows: readonly Row[]; count: number; schema: TSchema },
): FastifyReply {
  let texts = textsOf.get(rows);
  if (texts === undefined) {
    const serialize = reply.compileSerializationSchema(schema);
    texts = { rows: rows.map((row) => serialize(row)), arrays: new Map() };
    textsOf.set(rows, texts);
  }
  let array = texts.arrays.get(count);
  if (array === undefined) {
    array = `[${texts.rows.slice(0, count).join(',')}]`;
    texts.arrays.set(count, array);
  }
  return reply.type('application/json; charset=utf-8').send(array);
}
