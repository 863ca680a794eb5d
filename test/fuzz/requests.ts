import { isDeepStrictEqual } from 'node:util';
import { anyDraft, type Client, type Draft, type Header, keyedDraft, percentEncoded } from './drafts.ts';
import type { Memory } from './memory.ts';
import type { ErrorCode, Prediction, Sent } from './oracle.ts';
import { ALPHANUMERIC, LATIN1, type Random, VISIBLE_ASCII } from './random.ts';
import { readBody } from './resources.ts';
import type { Target } from './target.ts';
import type { Answer } from './wire.ts';

/** A request in well-formed HTTP, and what must become of it. */
export interface Request {
  readonly kind: string;
  readonly bytes: Buffer;
  /** Whether the connection may end with it. */
  readonly mayClose: boolean;
  readonly sent: Sent;
  readonly prediction: Prediction;
  /** Takes from a right answer what later requests can be made of. */
  learn?(answer: Answer): void;
}

/** What a part of the head adds to a request. */
interface Part {
  readonly headers: readonly Header[];
  readonly refusals: readonly ErrorCode[];
}

const HOSTS = ['', 'a-b.c_~', 'localhost', '127.0.0.1:1', '[::1]:80', 'a.example', 'LOCALHOST:65535'];
/**
 * What arrives as a whole. Where a connection closes with a refusal while a body is still arriving, TCP may tell the
 * client of a reset before it has read the answer.
 */
const PACKET_BYTES = 8192;
/** RFC 9112, 3.2, asks for 400; RFC 3986, 3.2.2, says what a host can be. */
const BAD_HOSTS = ['a b', 'a/b', 'http://a', 'a?b', 'a#b', 'x@a', 'a:b', '[', '\\', 'a"b', '%zz', '\u00e9'];
const SANE_ID = `${ALPHANUMERIC}._-`;
const OTHER_IDS = ['', 'a b', 'a,b', '\u00e9', '{}', 'a/', '__proto__!', 'a'.repeat(129), 'a'.repeat(3000)];
const ASKS_FOR_KEY = /^\/(?:v1|quickstart)(?:[/?]|$)/;

export function anyRequest(random: Random, memory: Memory, target: Target): Request {
  if (random.chance(1)) return connectRequest(random);
  const apiKey = random.pick(target.keys);
  const draft = anyDraft({ random, memory, apiKey });
  const credential = random.chance(10)
    ? badCredential(random, apiKey, target)
    : goodCredential(random, apiKey);
  return dress(random, draft, credential);
}

/** Copies of a request that, sent all at once, create one resource between them. */
export function twins(random: Random, memory: Memory, target: Target): Request[] {
  const client: Client = { random, memory, apiKey: random.pick(target.keys) };
  const draft = { ...keyedDraft(client), kind: 'twins' };
  const first = dress(random, draft, goodCredential(random, client.apiKey), { isPlain: true });
  const { refusals, success } = first.prediction;
  let resource: unknown;
  const prediction: Prediction = {
    refusals,
    success: success && {
      status: success.status,
      check: (answer) => {
        resource ??= readBody(answer);
        const isSame = isDeepStrictEqual(resource, readBody(answer));
        return success.check(answer) ?? (isSame ? undefined : 'one Idempotency-Key created two resources');
      },
    },
  };
  const { learn: _, ...other } = first;
  const others = Array.from({ length: random.int(1, 3) }, () => ({ ...other, prediction }));
  return [{ ...first, prediction }, ...others];
}

function connectRequest(random: Random): Request {
  const id = requestId(random);
  const headers = [...id.headers, ...noise(random), ['Host', 'localhost:1'] as const];
  return {
    kind: 'CONNECT',
    bytes: write(random, `CONNECT localhost:${random.int(1, 65_535)} HTTP/1.1`, headers),
    mayClose: true,
    sent: { requestId: id.sane, mayContinue: false, isHead: false, mayBeConnect: true },
    prediction: { refusals: ['not_implemented'], success: undefined },
  };
}

/** Makes a whole request of a draft; a plain one has nothing more that it could be refused for. */
function dress(random: Random, draft: Draft, credential: Part, { isPlain = false } = {}): Request {
  const content = contentOf(random, draft);
  const canClose = !isPlain && (content.body ?? '').length <= PACKET_BYTES;
  const isOld = canClose && random.chance(4);
  const closes = isOld || (canClose && random.chance(2));
  const host = isPlain ? GOOD_HOST : hostPart(random, isOld);
  const expectation = canClose ? expectationPart(random, isOld) : NO_PART;
  const id = requestId(random);
  const framing = frame(random, content.body, { canBeChunked: !isOld });

  const asksForKey = ASKS_FOR_KEY.test(draft.target);
  const line = `${draft.method} ${spelledTarget(random, draft)} HTTP/1.${isOld ? 0 : 1}`;
  const headers = [
    ...(closes && !isOld ? [['Connection', 'close'] as const] : []),
    ...[host, expectation, credential, id, content, framing].flatMap((part) => part.headers),
    ...(draft.headers ?? []),
    ...noise(random),
  ];
  return {
    kind: draft.kind,
    bytes: Buffer.concat([write(random, line, headers), framing.payload]),
    mayClose: closes || expectation.headers.length > 0, // a body that was not asked for may follow, or not
    sent: {
      requestId: id.sane,
      mayContinue: !isOld && expectation.headers.length > 0,
      isHead: draft.method === 'HEAD',
      mayBeConnect: false,
    },
    prediction: predict(),
    ...(draft.learn && { learn: draft.learn }),
  };

  /** A path must be decoded before anything else can be known, and the key comes before all that is left. */
  function predict(): Prediction {
    const { refusals, success, mayBeTaken = refusals.length === 0, also, isUndecodable } = draft;
    if (isUndecodable) return { refusals, success: undefined };
    if (asksForKey && credential.refusals.length > 0) {
      return { refusals: credential.refusals, success: undefined };
    }
    const others = [...host.refusals, ...expectation.refusals];
    return {
      refusals: [...refusals, ...others],
      success: others.length === 0 && (mayBeTaken || refusals.length === 0) ? success : undefined,
      ...(also && { also }),
    };
  }
}

/** The same address in one of the forms that mean the same (RFC 3986, 6.2.2.2; RFC 9112, 3.2.2). */
function spelledTarget(random: Random, { target, isUndecodable }: Draft): string {
  const encoded =
    isUndecodable || !random.chance(4)
      ? target
      : target.replace(/^\/\w+/, (segment) => `/${percentEncoded(random, segment.slice(1))}`);
  return random.chance(3) ? `http://localhost${encoded}` : encoded;
}

const NO_PART: Part = { headers: [], refusals: [] };
const GOOD_HOST: Part = { headers: [['Host', 'localhost']], refusals: [] };

/** HTTP/1.0 knows no Host (RFC 9112, 3.2). */
function hostPart(random: Random, isOld: boolean): Part {
  const host = (): Header => ['Host', random.pick(HOSTS)];
  return random.weighted<() => Part>([
    [92, () => ({ headers: [host()], refusals: [] })],
    [3, () => ({ headers: [], refusals: isOld ? [] : ['invalid_request'] })],
    [isOld ? 0 : 2, () => ({ headers: [['Host', random.pick(BAD_HOSTS)]], refusals: ['invalid_request'] })],
    [isOld ? 0 : 3, () => ({ headers: [host(), host()], refusals: ['invalid_request'] })],
  ])();
}

/** A server ignores the expectations of HTTP/1.0 (RFC 9110, 10.1.1). */
function expectationPart(random: Random, isOld: boolean): Part {
  const others = ['200-ok', '', 'x'.repeat(1000), '100-continue, x', '100', '\u00e9'];
  return random.weighted<() => Part>([
    [94, () => NO_PART],
    [3, () => ({ headers: [['Expect', random.pick(['100-continue', '100-Continue'])]], refusals: [] })],
    [isOld ? 0 : 2, () => ({ headers: [['Expect', random.pick(others)]], refusals: ['expectation_failed'] })],
  ])();
}

/** An x-request-id, `sane` where it must come back. */
function requestId(random: Random): { headers: readonly Header[]; sane: string | undefined } {
  const sane = random.text(SANE_ID, random.pick([1, 8, 36, 127, 128]));
  const values = random.weighted<() => string[]>([
    [50, () => []],
    [35, () => [sane]],
    [5, () => [sane, sane]],
    [10, () => [random.pick(OTHER_IDS)]],
  ])();
  const isSane = values.length === 1 && values[0] === sane;
  return {
    headers: values.map((value) => ['X-Request-Id', value]),
    sane: isSane ? sane : undefined,
  };
}

function goodCredential(random: Random, key: string): Part {
  const value = random.pick(['Bearer ', 'Bearer ', 'Bearer ', 'bearer ', 'BEARER  ', 'bEaReR     ']) + key;
  return { headers: [['Authorization', value]], refusals: [] };
}

function badCredential(random: Random, key: string, { badKeys }: Target): Part {
  const at = random.int(0, key.length - 1);
  const mistyped = key.slice(0, at) + (key[at] === 'x' ? 'y' : 'x') + key.slice(at + 1);
  const missing = [[], [''], [key], ['Bearer'], [`Bearer${key}`], [`Bearer\t${key}`], [`Bearer ${key} x`]];
  const others = [[`Basic ${key}`], [`Bearer ${key}`, `Bearer ${key}`], [`Bearer ${key}`, 'Basic eDp5']];
  const invalid = [...badKeys, mistyped, `${key}x`, key.slice(0, -1), key.toUpperCase(), 'a'.repeat(5000)];
  const odd = [random.text(LATIN1 + VISIBLE_ASCII, random.int(1, 60)), `"${key}"`, `${key},`];
  const [values, refusals] = random.pick<[string[], ErrorCode[]]>([
    [random.pick([...missing, ...others]), ['missing_api_key']],
    [[`Bearer ${random.pick(invalid)}`], ['invalid_api_key']],
    [[`Bearer ${random.pick(odd)}`], ['missing_api_key', 'invalid_api_key']],
  ]);
  return { headers: values.map((value) => ['Authorization', value]), refusals };
}

/** The body of a request: its own, or now and then one that nobody reads. */
function contentOf(random: Random, { body }: Draft): Part & { body: Buffer | undefined } {
  if (body !== undefined || !random.chance(8)) return { ...NO_PART, body };
  const types = ['application/json', 'text/plain', 'application/octet-stream', 'x'];
  const ignored = Buffer.from(
    random.pick(['', '{', '{"name":"x","categoryId":1}', 'GET / HTTP/1.1\r\n\r\n', '\0']),
  );
  return { headers: [['Content-Type', random.pick(types)]], refusals: [], body: ignored };
}

/** Says where a body ends, in one of the ways of HTTP. */
function frame(
  random: Random,
  body: Buffer | undefined,
  { canBeChunked }: { canBeChunked: boolean },
): { headers: readonly Header[]; payload: Buffer } {
  if (body === undefined || (body.length === 0 && random.chance(50))) {
    return { headers: [], payload: Buffer.alloc(0) };
  }
  if (!canBeChunked || random.chance(80)) {
    return { headers: [['Content-Length', `${body.length}`]], payload: body };
  }
  const pieces: (string | Buffer)[] = [];
  for (let at = 0; at < body.length; ) {
    const size = random.int(1, random.pick([1, 10, 100, 70_000]));
    const chunk = body.subarray(at, at + (pieces.length > 1000 ? body.length : size));
    const digits = chunk.length.toString(16);
    const written = random.pick([digits, digits.toUpperCase(), digits.padStart(6, '0')]);
    pieces.push(written, random.pick(['', '', ';x', ';x=1', ';x="a b"']), '\r\n', chunk, '\r\n');
    at += chunk.length;
  }
  pieces.push('0\r\n', random.pick(['', '', 'X-Trailer: x\r\n', 'Authorization: x\r\n']), '\r\n');
  return {
    headers: [['Transfer-Encoding', random.pick(['chunked', 'Chunked'])]],
    payload: Buffer.concat(pieces.map((piece) => Buffer.from(piece))),
  };
}

const NOISE: readonly Header[] = [
  ...accepting('*/*', 'application/json', 'text/html', 'application/xml;q=0.9', 'application/json;q=0', ''),
  ['Accept-Encoding', 'gzip, br'],
  ['Accept-Encoding', 'identity;q=0'],
  ['Accept-Charset', 'latin1'],
  ['Accept-Language', 'xx'],
  ['User-Agent', ''],
  ['Cookie', 'a=b; __Host-x="y"'],
  ['Range', 'bytes=0-1'],
  ['If-None-Match', '*'],
  ['If-Modified-Since', 'Fri, 31 Dec 9999 23:59:59 GMT'],
  ['If-Match', '"x"'],
  ['Origin', 'https://evil.example'],
  ['Access-Control-Request-Method', 'POST'],
  ['X-HTTP-Method-Override', 'DELETE'],
  ['X-Forwarded-For', '127.0.0.1, ::1'],
  ['X-Forwarded-Host', 'evil.example'],
  ['X-Forwarded-Prefix', '/v2'],
  ['X-Original-URL', '/health/live'],
  ['Forwarded', 'for="_x";host=evil'],
  ['Max-Forwards', '0'],
  ['TE', 'trailers'],
  ['Trailer', 'X-Trailer'],
  ['Keep-Alive', 'timeout=0'],
  ['Upgrade', 'h2c'],
  ['Prefer', 'return=minimal'],
  ['Proxy-Authorization', 'Basic x'],
  ['Content-Language', 'x'],
  ['Content-Location', '/'],
  ['Date', 'yesterday'],
  ['__proto__', '{}'],
  ['constructor', 'x'],
  ['hasOwnProperty', '1'],
  ["!#$%&'*+-.^_`|~", 'x'],
  ['X-Empty', ''],
  ['X-Long', 'a'.repeat(2000)],
  ['X-Tabs', 'a\t \tb'],
];

function accepting(...values: string[]): Header[] {
  return values.map((value) => ['Accept', value]);
}

/** Headers that change nothing. */
function noise(random: Random): Header[] {
  const count = random.weighted([
    [60, 0],
    [20, 1],
    [15, 5],
    [1, 100],
  ]);
  const short = NOISE.filter(([, value]) => value.length < 100);
  const choices: Header[] = [['X-Odd', random.text(LATIN1, 20)], ...(count > 5 ? short : NOISE)];
  return Array.from({ length: count }, () => random.pick(choices));
}

/** The head of a request. Names are in any case, in any order, with any space around the values. */
function write(random: Random, line: string, headers: readonly Header[]): Buffer {
  const space = () => random.pick(['', ' ', ' ', ' ', '\t', '   ']);
  const lines = random.shuffled(headers).map(([name, value]) => {
    const written = random.pick([name, name, name.toLowerCase(), name.toUpperCase()]);
    // Node's parser knows no tab after "chunked", and refuses it.
    const trailing = name === 'Transfer-Encoding' ? '' : space();
    return `${written}:${space()}${value}${trailing}\r\n`;
  });
  return Buffer.from(`${line}\r\n${lines.join('')}\r\n`, 'latin1');
}
