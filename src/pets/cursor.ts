import { ApiError } from '../http/errors.ts';

/** The highest id that there can be, where the first page begins. */
export const HIGHEST_ID = 2n ** 63n - 1n;

/** The opaque text that stands for the animal at which a page ended. */
export function encodeCursor(id: bigint): string {
  return Buffer.from(`before:${id}`).toString('base64url');
}

/**
 * The highest id that the page after a cursor can hold.
 *
 * @throws ApiError `invalid_cursor` unless the text is exactly one that `encodeCursor` gives for an animal that others
 *   can follow
 */
export function decodeCursor(cursor: string): bigint {
  const [, digits] = /^before:(-?\d{1,19})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? [];
  const id = BigInt(digits ?? 0);
  const highest = id - 1n;
  const areInt64 = BigInt.asIntN(64, id) === id && BigInt.asIntN(64, highest) === highest;
  if (digits === undefined || !areInt64 || encodeCursor(id) !== cursor) {
    throw new ApiError('invalid_cursor', 'cursor must be taken unchanged from the Link of a page.');
  }
  return highest;
}
