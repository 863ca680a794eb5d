import { resolve, type Schema } from './api.ts';
import type { ErrorCode } from './oracle.ts';
import type { Random } from './random.ts';
import { anyJson, invalidJson, spell, type Value, validValue } from './values.ts';

/** A body, and what is known about it. */
export interface Body {
  readonly bytes: Buffer;
  /** The members that are to be stored, where the body is taken. */
  readonly members: ReadonlyMap<string, Value>;
  /** The codes that it can be refused with; none where it must be taken. */
  readonly refusals: readonly ErrorCode[];
  /** Whether it may also be taken in spite of `refusals`: the contract leaves it open. */
  readonly mayBeTaken: boolean;
}

const BODY_LIMIT_BYTES = 64 * 1024;
/** Nesting that every JSON parser follows. */
const MODEST_DEPTH = 100;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const SPACES = ['', '', '', ' ', '\n', '\t', '\r\n  '];
const ODD_NAMES = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'id',
  '',
  'Name',
  'x',
];

/** Each of them makes any UTF-8 text that it is put into something else than UTF-8. */
const NOT_UTF8 = [[0xff], [0x80], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xfe, 0xff]];

/** The members of a body that must be taken. */
export function validMembers(random: Random, schema: Schema): ReadonlyMap<string, Value> {
  const { properties = {}, required = [] } = schema;
  const present = Object.entries(properties).filter(([name]) => required.includes(name) || random.chance(60));
  return new Map(present.map(([name, property]) => [name, validValue(random, resolve(property))]));
}

/** One of the ways to write a body of these members: order, space, escapes and what is ignored are free. */
export function writeMembers(random: Random, members: ReadonlyMap<string, Value>): string {
  const written = [...members].map(([name, value]): Member => [name, spell(random, value)]);
  return writeObject(random, written);
}

/** A member: its name, and the JSON of its value. */
type Member = readonly [name: string, json: string];

function writeObject(random: Random, members: readonly Member[]): string {
  const all = random.shuffled(members);
  if (random.chance(25)) all.splice(random.int(0, all.length), 0, [random.pick(ODD_NAMES), anyJson(random)]);
  // Of members with the same name JSON.parse takes the last.
  if (random.chance(5))
    all.unshift([random.pick(members.map(([name]) => name).concat('x')), anyJson(random)]);
  const space = () => random.pick(SPACES);
  const texts = all.map(
    ([name, json]) => `${space()}${spell(random, name)}${space()}:${space()}${json}${space()}`,
  );
  return `${space()}{${texts.join(',') || space()}}${space()}`;
}

export function validBody(random: Random, members: ReadonlyMap<string, Value>): Body {
  return limited(taken(members, writeMembers(random, members)));
}

/** A body for a schema: most often a good one. */
export function anyBody(random: Random, schema: Schema): Body {
  const members = validMembers(random, schema);
  const body = random.weighted([
    [55, () => validBody(random, members)],
    [20, () => wrongBody(random, schema, members)],
    [12, () => malformedBody(random, writeMembers(random, members))],
    [4, () => refused('invalid_request', anyJson(random).replace(/^\{.*/s, '[]'))],
    [3, () => largeBody(random, members)],
    [3, () => deepBody(random, members)],
    [1, () => markedBody(random, members)],
  ])();
  return limited(body);
}

/** What is too large is refused unread. */
function limited(body: Body): Body {
  if (body.bytes.length <= BODY_LIMIT_BYTES) return body;
  return { ...body, refusals: ['payload_too_large'], mayBeTaken: false };
}

function taken(members: ReadonlyMap<string, Value>, text: string): Body {
  return { bytes: Buffer.from(text), members, refusals: [], mayBeTaken: false };
}

function refused(code: ErrorCode, text: string | Buffer): Body {
  return { bytes: Buffer.from(text), members: new Map(), refusals: [code], mayBeTaken: false };
}

/** Well-formed JSON of an object in which a member is missing or wrong. */
function wrongBody(random: Random, schema: Schema, members: ReadonlyMap<string, Value>): Body {
  const { properties = {}, required = [] } = schema;
  const victim = random.pick(Object.keys(properties));
  const others = [...members].filter(([name]) => name !== victim);
  const written = others.map(([name, value]): Member => [name, spell(random, value)]);
  const property = properties[victim];
  if (property !== undefined && !(required.includes(victim) && random.chance(40))) {
    written.push([victim, invalidJson(random, resolve(property))]);
  } else if (random.chance(20)) {
    written.push(['__proto__', `{${JSON.stringify(victim)}:1}`]);
  }
  return refused('invalid_request', writeObjectAsIs(random, written));
}

/** A duplicate could stand in for what is missing, so there are none. */
function writeObjectAsIs(random: Random, members: readonly Member[]): string {
  return `{${random.shuffled(members).map(([name, json]) => `${spell(random, name)}:${json}`)}}`;
}

function malformedBody(random: Random, text: string): Body {
  const trimmed = text.trim();
  const bytes = Buffer.from(text);
  const at = random.int(0, bytes.length);
  const spoilt = random.weighted<() => string | Buffer>([
    [3, () => trimmed.slice(0, random.int(0, trimmed.length - 1))],
    [3, () => Buffer.concat([bytes.subarray(0, at), Buffer.from(random.pick(NOT_UTF8)), bytes.subarray(at)])],
    [2, () => text + random.pick(['}', ']', ',', 'x', '{}', '\0', '//', '\u00a0', '\ufeff'])],
    [1, () => trimmed.replace(/\}$/, random.pick([',}', '', ']', ',"x"}', ',"x":}', ',x:1}', ",'x':1}"]))],
    [1, () => trimmed.replace(/\}$/, `,"x":${random.pick(BROKEN_VALUES)}}`)],
    [
      1,
      () => random.pick(['', ' ', '\n', ',', ':', '"', '{', '[', 'nul', 'undefined', '<a/>', 'name=a', '\0']),
    ],
    [1, () => Buffer.from(`\ufeff${text}`, 'utf16le')],
    [1, () => '['.repeat(random.int(1, 60_000))],
  ])();
  return refused('malformed_json', spoilt);
}

const BROKEN_VALUES = [
  ...['01', '+1', '0x10', '.5', '1.', '1e', '-', 'NaN', '-Infinity', '1n', '1_000', 'True', 'None', "'a'"],
  ...['"\\x41"', '"\\u12"', '"\\u{41}"', '"\t"', '"\n"', '"\u0000"', '"\u001f"', '"', '/**/1', '`a`'],
];

/** A good body, but for its size: just within the limit, or beyond it. */
function largeBody(random: Random, members: ReadonlyMap<string, Value>): Body {
  const text = writeMembers(random, members);
  const size = BODY_LIMIT_BYTES + random.pick([0, 0, 1, 1, 2, 10_000, 200_000]);
  return taken(members, text + ' '.repeat(Math.max(0, size - Buffer.byteLength(text))));
}

/** A good body with an unknown member that is nested deeply. */
function deepBody(random: Random, members: ReadonlyMap<string, Value>): Body {
  const depth = random.pick([10, MODEST_DEPTH, 1000, 5000, 10_000]);
  const [open, close] = random.pick([
    ['[', ']'],
    ['{"":', '}'],
  ] as const);
  const nested = `"deep":${open.repeat(depth)}1${close.repeat(depth)}`;
  const body = taken(members, writeMembers(random, members).replace(/\}(?=\s*$)/, `,${nested}}`));
  return depth <= MODEST_DEPTH ? body : { ...body, refusals: ['malformed_json'], mayBeTaken: true };
}

/** A good body after a byte order mark, which a reader of JSON may ignore or refuse (RFC 8259, 8.1). */
function markedBody(random: Random, members: ReadonlyMap<string, Value>): Body {
  const body = validBody(random, members);
  const bytes = Buffer.concat([BYTE_ORDER_MARK, body.bytes]);
  return { ...body, bytes, refusals: ['malformed_json'], mayBeTaken: true };
}
