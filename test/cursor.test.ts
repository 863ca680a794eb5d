import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeCursor, encodeCursor, HIGHEST_ID } from '../src/pets/cursor.ts';

const LOWEST_ID = -(2n ** 63n);

const int64 = fc.bigInt({ min: LOWEST_ID, max: HIGHEST_ID });
/** Ids of animals that others can follow, those at the ends of the range and around zero among them. */
const followed = fc.oneof(
  fc.bigInt({ min: LOWEST_ID + 1n, max: HIGHEST_ID }),
  fc.constantFrom(LOWEST_ID + 1n, LOWEST_ID + 2n, -1n, 0n, 1n, 2n ** 53n + 1n, HIGHEST_ID - 1n, HIGHEST_ID),
);

test('the highest id is that of int64', () => {
  expect(HIGHEST_ID).toBe(9223372036854775807n);
});

test('a cursor stands for the page that begins right below its animal, exactly, for every int64', () => {
  fc.assert(fc.property(followed, (id) => decodeCursor(encodeCursor(id)) === id - 1n));
});

test('the cursor of the lowest int64 is refused, since no animal can follow it', () => {
  expect(() => decodeCursor(encodeCursor(LOWEST_ID))).toThrow('cursor must');
});

test('a cursor needs no escape in a query', () => {
  fc.assert(fc.property(int64, (id) => encodeURIComponent(encodeCursor(id)) === encodeCursor(id)));
});

test('no other text decodes', () => {
  const text = fc.oneof(
    fc.string(),
    fc.base64String(),
    int64.map(String),
    fc.string().map((raw) => Buffer.from(raw).toString('base64url')),
  );
  fc.assert(
    fc.property(text, (cursor) => {
      expect(() => decodeCursor(cursor)).toThrow('cursor must');
    }),
  );
});

test('a cursor that was changed in any place is refused, or stands for another whole id', () => {
  fc.assert(
    fc.property(int64, fc.nat(), fc.base64String({ minLength: 4, maxLength: 4 }), (id, place, piece) => {
      const cursor = encodeCursor(id);
      const at = place % cursor.length;
      const changed = cursor.slice(0, at) + piece.charAt(0) + cursor.slice(at + 1);
      let highest: bigint;
      try {
        highest = decodeCursor(changed);
      } catch {
        return;
      }
      expect(encodeCursor(highest + 1n)).toBe(changed);
    }),
  );
});

test('a cursor beyond int64 is refused', () => {
  for (const id of [HIGHEST_ID + 1n, LOWEST_ID - 1n]) {
    expect(() => decodeCursor(encodeCursor(id))).toThrow('cursor must');
  }
});
