/** Pseudo-random choices: the same seed gives the same ones (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** A number from 0 on, less than 1. */
  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `minimum` to `maximum`, both included. */
  int(minimum: number, maximum: number): number {
    return minimum + Math.floor(this.#next() * (maximum - minimum + 1));
  }

  /** True in `percent` of 100 cases. */
  chance(percent: number): boolean {
    return this.#next() * 100 < percent;
  }

  pick<T>(items: readonly T[]): T {
    const at = this.int(0, items.length - 1);
    for (const item of items.slice(at, at + 1)) return item;
    throw new Error('there is nothing to pick from');
  }

  /** One of the values, each as often as its weight says. */
  weighted<T>(choices: readonly (readonly [weight: number, value: T])[]): T {
    let rest = this.#next() * choices.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, value] of choices) {
      rest -= weight;
      if (rest < 0) return value;
    }
    throw new Error('there is nothing to choose from');
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.int(0, 255)));
  }

  /** A text of characters of the alphabet. */
  text(alphabet: string, length: number): string {
    return Array.from({ length }, () => alphabet.charAt(this.int(0, alphabet.length - 1))).join('');
  }

  /** A whole number of 64 bits, signed. */
  int64(): bigint {
    return BigInt.asIntN(64, this.bytes(8).readBigInt64LE());
  }

  shuffled<T>(items: readonly T[]): T[] {
    const rest = [...items];
    return items.flatMap(() => rest.splice(this.int(0, rest.length - 1), 1));
  }
}

export const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
export const VISIBLE_ASCII = charactersOf(0x21, 0x7e);
/** What Latin-1 has beyond ASCII and can be seen. */
export const LATIN1 = charactersOf(0xa1, 0xff);

function charactersOf(first: number, last: number): string {
  return String.fromCharCode(...Array.from({ length: last - first + 1 }, (_, index) => first + index));
}
