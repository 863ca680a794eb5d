import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { exactInteger, parseJson } from '../src/http/json.ts';

const parse = (text: string) => parseJson(Buffer.from(text));

/** The spellings of an integer that JSON allows, with its exact value. */
const spelledInteger = fc
  .record({
    value: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    shift: fc.integer({ min: 0, max: 40 }),
    padding: fc.integer({ min: 0, max: 40 }),
    letter: fc.constantFrom('e', 'E', 'e+', 'E+'),
  })
  .map(({ value, shift, padding, letter }) => {
    const [sign, digits] = value < 0n ? ['-', (-value).toString()] : ['', value.toString()];
    const padded = digits.padStart(shift + 1, '0');
    const whole = padded.slice(0, padded.length - shift);
    const fraction = padded.slice(padded.length - shift) + '0'.repeat(padding);
    const mantissa = sign + whole.replace(/^0+(?=\d)/, '') + (fraction && `.${fraction}`);
    return { token: shift === 0 ? mantissa : `${mantissa}${letter}${shift}`, value };
  });

describe('exactInteger', () => {
  test('gives every int64 exactly, however it is spelt', () => {
    fc.assert(
      fc.property(spelledInteger, ({ token, value }) => {
        expect(exactInteger(token)).toBe(value);
      }),
      { numRuns: 2000 },
    );
  });

  test('takes no number with a fraction for an integer', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n }),
        fc.integer({ min: 1, max: 9 }),
        (whole, tenth) => {
          expect(exactInteger(`${whole}.${tenth}`)).toBeUndefined();
          expect(exactInteger(`${whole}.${tenth}e-3`)).toBeUndefined();
        },
      ),
    );
  });

  test('agrees with JavaScript on the numbers that JavaScript holds exactly', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        const expected = Number.isSafeInteger(number) ? BigInt(number) : undefined;
        if (expected !== undefined || Math.abs(number) < 2 ** 53) {
          expect(exactInteger(JSON.stringify(number))).toBe(expected);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    ['a long integer', '9'.repeat(65_000)],
    ['a long fraction', `0.${'3'.repeat(65_000)}`],
    ['zeros around a digit', `${'0.'}${'0'.repeat(32_000)}1${'0'.repeat(32_000)}`],
    ['a long exponent', `1e${'9'.repeat(65_000)}`],
    ['a long negative exponent', `1e-${'9'.repeat(65_000)}`],
  ])('refuses %s in a blink', (_what, token) => {
    const times = [1, 2, 3].map(() => {
      const begun = performance.now();
      expect(exactInteger(token)).toBeUndefined();
      return performance.now() - begun;
    });
    expect(Math.min(...times)).toBeLessThan(50); // milliseconds; the processor is shared with other tests
  });
});

describe('parseJson', () => {
  test('gives what JSON.parse gives, with bigint for integers', () => {
    const asNumbers = (value: unknown): unknown => {
      if (typeof value === 'bigint') return Number(value);
      if (Array.isArray(value)) return value.map(asNumbers);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, asNumbers(member)]));
    };
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(asNumbers(parse(text))).toEqual(asNumbers(JSON.parse(text)));
      }),
      { numRuns: 1000 },
    );
  });

  test('keeps every text that UTF-8 can carry', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(parse(JSON.stringify(text))).toBe(text);
      }),
      { numRuns: 1000 },
    );
  });

  test('refuses bytes that are not UTF-8, and repairs none', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 30 }), (bytes) => {
        const body = Buffer.concat([Buffer.from('"'), bytes, Buffer.from('"')]);
        const isFaithful = body.equals(Buffer.from(body.toString('utf8')));
        if (!isFaithful) expect(() => parseJson(body)).toThrow('not UTF-8');
      }),
      { numRuns: 2000 },
    );
  });
});
