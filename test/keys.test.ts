import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { generateKey, hintOf, isWellFormedKey } from '../src/keys/format.ts';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

describe('an API key', () => {
  test('is ast_live_ or ast_test_, 32 random base62 characters and 6 of checksum', () => {
    expect(generateKey('live')).toMatch(/^ast_live_[0-9A-Za-z]{38}$/);
    expect(generateKey('test')).toMatch(/^ast_test_[0-9A-Za-z]{38}$/);
    expect(new Set(Array.from({ length: 1000 }, () => generateKey('live'))).size).toBe(1000);
  });

  test('ends in the CRC32 of all that stands before, in base62, most significant first', () => {
    for (let round = 0; round < 200; round++) {
      const key = generateKey('live');
      const value = [...key.slice(-6)].reduce((sum, digit) => sum * 62 + BASE62.indexOf(digit), 0);
      expect(value).toBe(crc32(key.slice(0, -6)));
    }
  });

  test.each([
    'ast_live_000000000000000000000000000000004aZSDI',
    'ast_live_0000000000000000000000000000004700kru3', // padded with 0
  ])('is well-formed as this known one: %s', (key) => {
    expect(isWellFormedKey(key)).toBe(true);
  });

  test('uses all of the alphabet', () => {
    const characters = Array.from({ length: 200 }, () => generateKey('live').slice(9, 41)).join('');
    expect([...new Set(characters)].sort().join('')).toBe(BASE62);
  });

  test('with any one character changed is not well-formed', () => {
    const key = generateKey('test');
    fc.assert(
      fc.property(fc.nat({ max: key.length - 1 }), fc.constantFrom(...BASE62), (place, character) => {
        const changed = key.slice(0, place) + character + key.slice(place + 1);
        expect(isWellFormedKey(changed)).toBe(changed === key);
      }),
      { numRuns: 500 },
    );
  });

  test('is not any other text', () => {
    fc.assert(fc.property(fc.string(), (text) => !isWellFormedKey(text)));
    const key = generateKey('test');
    for (const text of [
      '',
      `${key} `,
      `${key}\n`,
      key.toUpperCase(),
      key.slice(1),
      `${key}0`,
      key.replace('test', 'prod'),
    ]) {
      expect(isWellFormedKey(text)).toBe(false);
    }
  });

  test('is recognised by its first 13 characters', () => {
    const key = generateKey('live');
    expect(hintOf(key)).toBe(key.slice(0, 13));
  });
});
