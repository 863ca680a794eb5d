import { ApiError } from '../http/errors.ts';

/** The opaque text that stands for the animal at which a page ended. */
export function encodeCursor(id: bigint): string {
  return Buffer.from(`before:${id}`).toString('base64url');
}

/** @throws ApiError `invalid_cursor` unless the text is exactly one that `encodeCursor` gives */
export function decodeCursor(cursor: string): bigint {
  const [, digits] = /^before:(-?\d{1,19})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? [];
  const id = BigInt(digits ?? 0);
  const isInt64 = BigInt.asIntN(64, id) === id;
  if (digits === undefined || !isInt64 || encodeCursor(id) !== cursor) {
    throw new ApiError('invalid_cursor', 'cursor must be taken unchanged from the Link of a page.');
  }
  return id;
}
