import type { FastifyInstance } from 'fastify';
import { ApiError } from './errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * JSON bytes to values, none of them altered on the way: what is not UTF-8 is refused rather than repaired, and
 * each integer that fits 19 digits becomes a bigint of exactly its value, however it is spelt (`1`, `1.0`, `1e3`).
 *
 * @throws ApiError `malformed_json`
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (bytes.length === 0) throw new ApiError('malformed_json', 'The body is empty; it must be JSON.');
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw new ApiError('malformed_json', 'The body is not UTF-8.');
  }
  try {
    return JSON.parse(text, (_name, value: unknown, context?: { source?: string }) =>
      typeof value === 'number' ? (exactInteger(context?.source ?? '') ?? value) : value,
    );
  } catch {
    throw new ApiError('malformed_json', 'The body is not well-formed JSON, or nested too deeply.');
  }
}

/**
 * The exact value of a JSON number, if it is an integer of at most 19 digits; otherwise undefined.
 * Works on the digits, in time proportional to the length of the token: a number may be 64 KiB long.
 */
export function exactInteger(token: string): bigint | undefined {
  if (/^-?\d{1,19}$/.test(token)) return BigInt(token);

  const [mantissa = '', exponent = '0'] = token.toLowerCase().split('e');
  const negative = mantissa.startsWith('-');
  const [whole = '', fraction = ''] = (negative ? mantissa.slice(1) : mantissa).split('.');
  const digits = whole + fraction;

  let start = 0;
  while (digits[start] === '0') start++;
  if (start === digits.length) return 0n;
  let end = digits.length;
  while (digits[end - 1] === '0') end--;

  // The value is the digits from start to end, followed by this many zeros.
  const zeros = Number(exponent) - fraction.length + (digits.length - end);
  if (zeros < 0 || end - start + zeros > 19) return undefined;
  const magnitude = BigInt(digits.slice(start, end) + '0'.repeat(zeros));
  return negative ? -magnitude : magnitude;
}

/** JSON, read by `parseJson`, is the only media type that bodies are taken in. */
export function acceptOnlyJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (_request, bytes, done) => {
    try {
      done(null, parseJson(bytes));
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
    }
  });
}
