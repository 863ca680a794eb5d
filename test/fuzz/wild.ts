import { LATIN1, type Random, VISIBLE_ASCII } from './random.ts';

/** Bytes that are no request in well-formed HTTP, or not surely one. */

/** Changes a few bytes of requests. */
export function mutated(random: Random, bytes: Buffer): Buffer {
  let result = bytes;
  for (let count = random.int(1, random.pick([1, 2, 8])); count > 0; count--)
    result = mutatedOnce(random, result);
  return result;
}

const TELLING = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  '\0',
  ' ',
  '\t',
  ':',
  '/',
  '%',
  '\u007f',
  '\u00ff',
  'HTTP/1.1',
  '0',
  ',',
];

function mutatedOnce(random: Random, bytes: Buffer): Buffer {
  const at = random.int(0, bytes.length);
  const end = Math.min(bytes.length, at + random.pick([1, 1, 2, 10, 100]));
  const before = bytes.subarray(0, at);
  const after = bytes.subarray(end);
  const piece = bytes.subarray(at, end);
  const put = (...pieces: Uint8Array[]) => Buffer.concat([before, ...pieces]);
  return random.weighted<() => Buffer>([
    [
      4,
      () =>
        put(
          piece.map((byte) => byte ^ (1 << random.int(0, 7))),
          after,
        ),
    ],
    [3, () => put(after)],
    [3, () => put(Buffer.from(random.pick(TELLING), 'latin1'), piece, after)],
    [2, () => put(random.bytes(random.int(1, 4)), after)],
    [2, () => put(piece, piece, after)],
    [2, () => put(after, piece)],
    [1, () => put(...Array.from({ length: 50 }, () => piece), after)],
    [2, () => before],
  ])();
}

const OTHER_PROTOCOLS = [
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04\0\0\0\0\0',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'SSH-2.0-OpenSSH_9.6\r\n',
  'GET /\r\n',
  'GET /health/live\r\n\r\n',
  'GET /health/live HTTP/0.9\r\n\r\n',
  'GET /health/live HTTP/1.2\r\nHost: a\r\n\r\n',
  'GET /health/live HTTP/2.0\r\nHost: a\r\n\r\n',
  'GET  /health/live  HTTP/1.1\r\nHost: a\r\n\r\n',
  'get /health/live HTTP/1.1\r\nHost: a\r\n\r\n',
  'OPTIONS rtsp://a/ RTSP/1.0\r\nCSeq: 1\r\n\r\n',
  'SOURCE /x ICE/1.0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  'QUIT\r\n',
  '*1\r\n$4\r\nPING\r\n',
  'GET health HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET * HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET ?x HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET ftp://a/v1/pets HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET http:// HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET http://a HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /#/v1/pets HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /health/live?\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n',
  'CONNECT /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n',
  'CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
  'GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  'GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n',
];

/** Bytes that have little to do with HTTP. */
export function raw(random: Random): Buffer {
  return random.weighted<() => Buffer>([
    [3, () => random.bytes(random.int(1, random.pick([8, 100, 2000])))],
    [
      2,
      () => Buffer.from(random.text(`${VISIBLE_ASCII}${LATIN1} \r\n\r\n\t\0`, random.int(1, 500)), 'latin1'),
    ],
    [4, () => Buffer.from(random.pick(OTHER_PROTOCOLS), 'latin1')],
    [
      1,
      () =>
        Buffer.from(
          random.pick(['A', '\r\n', '\0', ' ', 'GET ', '\xff', 'a:b\r\n']).repeat(random.int(1, 20_000)),
        ),
    ],
  ])();
}

/** What `hidden` is known by, if it should ever be answered. */
export const HIDDEN_ID = 'hidden-in-a-body';

/**
 * A request that readers of HTTP can take for different ones, with another one hidden in what some of them take for its
 * body: it must be refused as a whole (RFC 9112, 6.1, 6.3 and 11.2).
 */
export function smuggled(random: Random, key: string, path = '/quickstart/messages'): Buffer {
  const hidden = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nX-Request-Id: ${HIDDEN_ID}\r\n\r\n`;
  const length = `Content-Length: ${hidden.length}\r\n`;
  const chunked = 'Transfer-Encoding: chunked\r\n';
  const chunk = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`;
  const ended = `0\r\n\r\n${hidden}`;
  const [headers, body] = random.pick([
    [`${length}${chunked}`, ended],
    [`${chunked}${length}`, ended],
    [`Content-Length: 0\r\n${length}`, hidden],
    [`${length}Content-Length: 0\r\n`, hidden],
    [`${length}${length}`, hidden],
    [`Content-Length: 0, ${hidden.length}\r\n`, hidden],
    ...['+0', '-0', '0x0', '0 0', '0;', '0.0', '0e1', '', 'x', '9'.repeat(30)].map(
      (value) => [`Content-Length: ${value}\r\n`, hidden] as const,
    ),
    ...[
      'xchunked',
      'identity',
      'gzip',
      'chunked, identity',
      'chunked, gzip',
      'chunked;q=1',
      '"chunked"',
      'chunk',
    ].map((value) => [`Transfer-Encoding: ${value}\r\n`, ended] as const),
    ['Transfer-Encoding : chunked\r\n', ended],
    ['Content-Length : 0\r\n', hidden],
    ['Transfer-Encoding\r\n: chunked\r\n', ended],
    [' Content-Length: 0\r\n', hidden],
    [`${chunked}Transfer-Encoding: identity\r\n`, ended],
    ['Content-\0Length: 0\r\n', hidden],
    ['X: a\0b\r\nContent-Length: 0\r\n', hidden],
    ['X: a\rContent-Length: 0\r\n', hidden],
    ...['0x', '+', '-', 'g', '\0', '1'.repeat(17)].map((sign) => [chunked, `${sign}${chunk}`] as const),
    [chunked, `1\r\nxx\r\n${ended}`],
    [chunked, `1\r\nx${ended}`],
    [chunked, `1\rx\r\n${ended}`],
    [chunked, `1;\n x\r\n${ended}`],
    [chunked, `0\r\nX: a\rb\r\n\r\n${hidden}`],
  ] as const);
  const request = `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`;
  return Buffer.from(`${request}Content-Type: application/json\r\n${headers}\r\n${body}`, 'latin1');
}

/** A request whose line and headers are larger than 16 KiB. */
export function oversized(random: Random, key: string): Buffer {
  const size = random.pick([16_384, 20_000, 100_000]);
  const authorization = `Authorization: Bearer ${key}\r\n`;
  const method = random.pick(['GET', 'HEAD']);
  const head = random.pick([
    `${method} /v1/pets/${'9'.repeat(size)} HTTP/1.1\r\nHost: a\r\n${authorization}`,
    `${method} /health/live?${'&'.repeat(size)} HTTP/1.1\r\nHost: a\r\n`,
    `${method} /v1/pets HTTP/1.1\r\nHost: a\r\n${authorization}X: ${'x'.repeat(size)}\r\n`,
    `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${'x'.repeat(size)}: x\r\n`,
    `${method} /v1/pets HTTP/1.1\r\nHost: a\r\n${'X: x\r\n'.repeat(size / 6)}`,
  ]);
  return Buffer.from(`${head}\r\n`);
}

/** A request that is not quite HTTP, which a server may refuse or understand (RFC 9112, 2.2 and 5.2). */
export function lenient(random: Random, key: string): Buffer {
  const lines = ['GET /v1/pets HTTP/1.1', 'Host: a', `Authorization: Bearer ${key}`, 'X: a'];
  const end = random.pick(['\n', '\r', '\r\r\n', '\n\r', '\r\n ', '\r\n\t', ' \r\n', '\0\r\n']);
  const at = random.int(0, lines.length - 1);
  const head = lines.map((line, index) => line + (index === at ? end : '\r\n')).join('');
  return Buffer.from(
    random.pick(['', '\r\n', '\n', '\r\n\r\n', ' ']) + head + random.pick(['\r\n', '\n']),
    'latin1',
  );
}
