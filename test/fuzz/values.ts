import { resolve, type Schema } from './api.ts';
import type { Random } from './random.ts';

/** What a member of a body, or a parameter, can hold. */
export type Value = string | bigint;

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const INTEGERS = [
  ...[0n, 1n, -1n, 7n, 10n, 1000n, 2n ** 31n, -(2n ** 31n) - 1n, 2n ** 32n, 10n ** 18n],
  ...[2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n) - 1n],
  ...[INT64_MAX, INT64_MAX - 1n, INT64_MIN, INT64_MIN + 1n],
];

const PIECES = [
  ...['Mittens', 'a', ' ', '\t', '\n', '\r\n', '"', '\\', '/', '\u007f', '\u0085', '\u2028', '\ufeff'],
  ...['ß', 'İ', 'e\u0301', 'é', '猫', '🐈', '👩‍👩‍👧', '\ufffd', '\uffff', '\u{10ffff}', '\u202e', '\ue000'],
  ...['__proto__', 'null', '{}', "'; DROP TABLE pets; --", '$&', '%00', '%s', '<script>', '\\u0000', '$1'],
];

/** Characters to make texts of a certain length of: in UTF-8 they take one to four bytes. */
const FILLINGS = ['x', 'ß', '猫', '🐈'];

/** Texts that UTF-8 or PostgreSQL cannot hold. */
const UNSTORABLE = ['\0', 'a\0b', '\ud800', '\udfff', '\udc00\ud800', '🐈\ud83d', '\0'.repeat(1000)];

/** A value that a schema allows, often one at an edge of it. */
export function validValue(random: Random, schema: Schema): Value {
  if (schema.enum !== undefined) return random.pick(schema.enum);
  return schema.type === 'integer' ? validInteger(random, schema) : validText(random, schema);
}

function validInteger(random: Random, { minimum, maximum }: Schema): bigint {
  const lowest = minimum === undefined ? INT64_MIN : BigInt(minimum);
  const highest = maximum === undefined ? INT64_MAX : BigInt(maximum);
  const candidates = [lowest, highest, ...INTEGERS].filter((value) => value >= lowest && value <= highest);
  if (random.chance(60)) return random.pick(candidates);
  return lowest + (BigInt.asUintN(64, random.int64()) % (highest - lowest + 1n));
}

function validText(random: Random, { maxLength = 100 }: Schema): string {
  return random.weighted([
    [20, () => random.pick(PIECES)],
    [20, () => Array.from({ length: random.int(0, 8) }, () => random.pick(PIECES)).join('')],
    [3, () => ''],
    [1, () => random.pick(FILLINGS).repeat(maxLength)],
    [1, () => random.pick(FILLINGS).repeat(maxLength - 1)],
  ])();
}

/** One of the ways in which JSON can write a value. */
export function spell(random: Random, value: Value): string {
  return typeof value === 'bigint' ? spellInteger(random, value) : spellText(random, value);
}

function spellInteger(random: Random, value: bigint): string {
  if (random.chance(60)) return `${value}`;
  if (value === 0n) return random.pick(['-0', '0.0', '0e5', '0E-7', '-0.0e+400']);
  const [, sign, significant, zeros] = /^(-?)(\d*?[1-9])(0*)$/.exec(`${value}`) ?? [];
  return random.pick([
    `${value}.${'0'.repeat(random.int(1, 30))}`,
    `${sign}${significant}e${zeros?.length}`,
    `${sign}${significant}${zeros}00E-2`,
    `${sign}0.${significant}e+${`${significant}${zeros}`.length}`,
  ]);
}

function spellText(random: Random, value: string): string {
  if (random.chance(60)) return JSON.stringify(value);
  const percent = random.pick([5, 50, 100]);
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value).replaceAll(/\\u[\da-f]{4}|\\.|[^\\"]/gu, (written) =>
    written.startsWith('\\') || !random.chance(percent) ? written : written.split('').map(escaped).join(''),
  );
}

const OTHER_TYPES = ['null', 'true', 'false', '[]', '{}', '[1]', '{"a":1}'];
const NO_INT64 = [
  ...['1.5', '-0.1', '4503599627370497.5', '9223372036854775807.5', '9007199254740993.1', '1e-1', '1e-400'],
  ...['9223372036854775808', '-9223372036854775809', '18446744073709551616', '1e19', '1e400', '-1e309'],
  ...['"7"', '""', '"9223372036854775807"', '9'.repeat(5000), `0.${'1'.repeat(5000)}`, '1e999999999999'],
];

/** Well-formed JSON of which a schema allows nothing. */
export function invalidJson(random: Random, schema: Schema): string {
  const { type, enum: values, maxLength = 100 } = schema;
  if (type === 'integer') return random.pick([...OTHER_TYPES, ...NO_INT64]);
  if (values !== undefined) {
    const near = random.pick(values);
    const wrong = ['', near.toUpperCase(), ` ${near}`, `${near}\0`, `${near}s`, '__proto__', 'constructor'];
    return random.pick([...OTHER_TYPES, '0', ...wrong.map((text) => JSON.stringify(text))]);
  }
  const tooLong = () => random.pick(FILLINGS).repeat(maxLength + random.pick([1, 1, 2, 1000]));
  const unstorable = () => random.pick([...UNSTORABLE, `${random.pick(PIECES)}${random.pick(UNSTORABLE)}`]);
  return random.weighted([
    [3, () => random.pick([...OTHER_TYPES, '0', '123', '1.5'])],
    [3, () => JSON.stringify(unstorable())],
    [1, () => JSON.stringify(tooLong())],
  ])();
}

const NO_INTEGER = [
  '',
  ' ',
  '0x10',
  '1e1',
  '+5',
  ' 5',
  '5 ',
  '5.0',
  '1.5',
  '-0',
  '01',
  '--1',
  '1_0',
  '٣',
  '１',
];
const NO_NUMBER = [
  'NaN',
  'Infinity',
  'null',
  'undefined',
  'true',
  '[object Object]',
  '5,6',
  '5;6',
  "1'--",
  '\0',
];

/** A text that is no value of an integer or of an enumeration, where only text can be sent. */
export function invalidText(random: Random, schema: Schema): string {
  if (schema.enum !== undefined) {
    const near = random.pick(schema.enum);
    return random.pick([
      '',
      near.toUpperCase(),
      ` ${near}`,
      `${near},${near}`,
      `${near}\0`,
      'null',
      '__proto__',
    ]);
  }
  const { minimum, maximum } = schema;
  const beyond = [
    minimum === undefined ? INT64_MIN - 1n : BigInt(minimum) - 1n,
    maximum === undefined ? INT64_MAX + 1n : BigInt(maximum) + 1n,
    2n ** 64n,
    10n ** 30n,
    -(10n ** 300n),
  ];
  return random.pick([...NO_INTEGER, ...NO_NUMBER, ...beyond.map(String)]);
}

/** Any JSON, such as an unknown member may hold. */
export function anyJson(random: Random, depth = 3): string {
  const nested = () => Array.from({ length: random.int(0, 3) }, () => anyJson(random, depth - 1));
  return random.weighted([
    [3, () => spellText(random, random.pick([...PIECES, ...UNSTORABLE]))],
    [3, () => random.pick([...NO_INT64, '0', '-0', '1E5', ...OTHER_TYPES])],
    [depth > 0 ? 1 : 0, () => `[${nested().join(',')}]`],
    [
      depth > 0 ? 1 : 0,
      () => `{${nested().map((json) => `${spellText(random, random.pick(PIECES))}:${json}`)}}`,
    ],
  ])();
}

/** How a value differs from what a schema says, or undefined. Integers are bigint, as `parseExactly` gives them. */
export function violation(schema: Schema, value: unknown, where = 'body'): string | undefined {
  const { type, enum: values, maxLength, required = [], properties = {}, items } = resolve(schema);
  switch (type) {
    case 'integer':
      return typeof value === 'bigint' ? undefined : `${where} is no plain integer`;
    case 'string':
      if (typeof value !== 'string') return `${where} is no string`;
      if (values !== undefined && !values.includes(value)) return `${where} is none of ${values}`;
      if (maxLength !== undefined && value.length > maxLength && [...value].length > maxLength)
        return `${where} is too long`;
      return undefined;
    case 'array':
      if (!Array.isArray(value) || items === undefined) return `${where} is no array`;
      return firstOf(value.map((item, index) => violation(items, item, `${where}[${index}]`)));
    default:
      if (!isRecord(value)) return `${where} is no object`;
      return firstOf([
        ...required.map((name) => (Object.hasOwn(value, name) ? undefined : `${where} has no ${name}`)),
        ...Object.entries(value).map(([name, member]) => {
          const property = properties[name];
          if (property === undefined) return `${where} has an unknown ${name}`;
          return violation(property, member, `${where}.${name}`);
        }),
      ]);
  }
}

function firstOf(problems: readonly (string | undefined)[]): string | undefined {
  return problems.find((problem) => problem !== undefined);
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The values of a JSON text, with each integer that is written as one as a bigint. @throws SyntaxError */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, (_name, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && /^-?\d+$/.test(context?.source ?? '')
      ? BigInt(context?.source ?? '')
      : value,
  );
}
