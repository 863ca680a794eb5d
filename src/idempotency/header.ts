import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { VisibleAscii } from '../http/types.ts';
import type { IdempotencyKey } from './creation.ts';

const KEY_MAX_LENGTH = 255;

/** The header of an operation that creates, for the `headers` of its schema (decisions: Writing safely). */
export const IdempotencyHeaders = Type.Object({
  'Idempotency-Key': Type.Optional(
    VisibleAscii({
      maxLength: KEY_MAX_LENGTH,
      description:
        'Makes it safe to send the request again: with the same key and body it is carried out once, and gives ' +
        'the same resource each time. It holds for the account and the operation, and never expires.',
      examples: ['0197f9d2-53ab-7c3e-9f51-d1c6a5b0e8a4'],
    }),
  ),
});

interface KeyedRequest extends Pick<FastifyRequest, 'apiKey'> {
  headers: { 'idempotency-key'?: string };
}

/** The key under which an authenticated request creates, where it has one. */
export function idempotencyKeyOf({ headers, apiKey }: KeyedRequest): IdempotencyKey | undefined {
  const { 'idempotency-key': key } = headers;
  if (key === undefined) return undefined;
  if (apiKey === null)
    throw new Error('an Idempotency-Key belongs to an account: the scope needs requireKey');
  return { accountId: apiKey.accountId, key };
}
