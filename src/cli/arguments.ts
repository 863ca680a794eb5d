import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { CommandError } from '../command-error.ts';

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const CENTURY_MS = 36_525 * 86_400_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Reads options, and exactly the positional arguments of these names.
 *
 * @throws CommandError that says which argument is missing or unknown
 */
export function readArguments<const Options extends ParseArgsOptionsConfig, Name extends string>(
  args: string[],
  options: Options,
  names: readonly Name[],
) {
  const { values, positionals } = parseOrRefuse(args, options);
  const surplus = positionals[names.length];
  if (surplus !== undefined) throw new CommandError(`unexpected argument "${surplus}"`);
  const given = new Map(names.map((name, place) => [name, required(name, positionals[place])]));
  return { values, positional: (name: Name) => required(name, given.get(name)) };
}

function parseOrRefuse<const Options extends ParseArgsOptionsConfig>(args: string[], options: Options) {
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : String(error));
  }
}

export function required(name: string, text: string | undefined): string {
  if (!text) throw new CommandError(`${name} is required`);
  return text;
}

/** The name of an account or a key: something to read in a list. */
export function readName(option: string, text: string): string {
  if (text.trim() !== text || !/^[^\p{Cc}\p{Cs}\ufffd]{1,100}$/u.test(text)) {
    throw new CommandError(
      `${option} must be 1 to 100 characters, without control characters or space around it`,
    );
  }
  return text;
}

export function readKeyId(text: string): string {
  if (!UUID.test(text))
    throw new CommandError(`"${text}" is not the ID of a key, such as "keys -- list" shows them`);
  return text.toLowerCase();
}

/** Milliseconds of a duration such as `45s`, `30m`, `1h` or `30d`. */
export function readDuration(option: string, text: string): number {
  const [, count, unit] = /^(\d{1,10})([smhd])$/.exec(text) ?? [];
  const milliseconds = Number(count) * (UNIT_MS[unit ?? ''] ?? Number.NaN);
  if (!(milliseconds <= CENTURY_MS)) {
    throw new CommandError(`${option} must be a duration such as 45s, 30m, 1h or 30d, of a century at most`);
  }
  return milliseconds;
}
