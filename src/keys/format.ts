import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { KeyEnvironment } from '../config.ts';

/** base62, in the order of the digits' value. */
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const HINT_LENGTH = 'ast_live_'.length + 4;

const KEY = new RegExp(
  `^(ast_(?:live|test)_[${ALPHABET}]{${RANDOM_LENGTH}})([${ALPHABET}]{${CHECKSUM_LENGTH}})$`,
);

/** A new key: `ast_live_` or `ast_test_`, 32 random base62 characters (190 bits) and 6 of checksum. */
export function generateKey(environment: KeyEnvironment): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  const body = `ast_${environment}_${random}`;
  return body + checksum(body);
}

/** Whether a text can be a key at all. The checksum lets a mistyped key be refused without asking the database. */
export function isWellFormedKey(text: string): boolean {
  const [, body, given] = KEY.exec(text) ?? [];
  return body !== undefined && checksum(body) === given;
}

/** CRC32 (IEEE) in base62, most significant digit first. */
function checksum(body: string): string {
  let rest = crc32(body);
  let digits = '';
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = ALPHABET.charAt(rest % ALPHABET.length) + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return digits;
}

/** SHA-256: all that is stored of a key. A key has 190 random bits, so there is nothing that a slow hash would add. */
export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** What a key is recognised by in lists and logs: its first characters, such as `ast_live_7Fq2`. */
export function hintOf(key: string): string {
  return key.slice(0, HINT_LENGTH);
}
