import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeCursor, encodeCursor } from '../src/pets/cursor.ts';

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });

test('a cursor gives back every int64 exactly', () => {
  fc.assert(fc.property(int64, (id) => decodeCursor(encodeCursor(id)) === id));
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
      let decoded: bigint;
      try {
        decoded = decodeCursor(changed);
      } catch {
        return;
      }
      expect(encodeCursor(decoded)).toBe(changed);
    }),
  );
});

test('a cursor beyond int64 is refused', () => {
  for (const id of [2n ** 63n, -(2n ** 63n) - 1n]) {
    expect(() => decodeCursor(encodeCursor(id))).toThrow('cursor must');
  }
});
