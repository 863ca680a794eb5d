import { Kind, type SchemaOptions, Type, TypeRegistry } from '@sinclair/typebox';

/** Kinds of TypeBox schema beyond its own, each with its check and the rule that an error message states. */

const VISIBLE_ASCII = /^[!-~]+$/;

TypeRegistry.Set(
  'Int64',
  (_schema, value) => typeof value === 'bigint' && BigInt.asIntN(64, value) === value,
);
TypeRegistry.Set<{ enum: readonly unknown[] }>('StringEnum', (schema, value) => schema.enum.includes(value));
TypeRegistry.Set<{ maxLength: number }>(
  'Text',
  (schema, value) =>
    typeof value === 'string' &&
    value.isWellFormed() &&
    !value.includes('\0') &&
    hasAtMostCodePoints(value, schema.maxLength),
);
TypeRegistry.Set<{ maxLength: number }>(
  'VisibleAscii',
  (schema, value) =>
    typeof value === 'string' && VISIBLE_ASCII.test(value) && value.length <= schema.maxLength,
);

/** A 64-bit signed integer: a JSON number on the wire, a bigint here. */
export function Int64(options: SchemaOptions = {}) {
  return Type.Unsafe<bigint>({ [Kind]: 'Int64', type: 'integer', format: 'int64', ...options });
}

/** Text that PostgreSQL keeps faithfully: Unicode without lone surrogates and U+0000. `maxLength` is in code points. */
export function Text(options: SchemaOptions & { maxLength: number }) {
  return Type.Unsafe<string>({ [Kind]: 'Text', type: 'string', ...options });
}

/** A header's value without spaces: at least one visible ASCII character. */
export function VisibleAscii(options: SchemaOptions & { maxLength: number }) {
  const rules = { type: 'string', minLength: 1, pattern: VISIBLE_ASCII.source };
  return Type.Unsafe<string>({ [Kind]: 'VisibleAscii', ...rules, ...options });
}

export function StringEnum<const Value extends string>(
  values: readonly Value[],
  options: SchemaOptions = {},
) {
  return Type.Unsafe<Value>({ [Kind]: 'StringEnum', type: 'string', enum: values, ...options });
}

function hasAtMostCodePoints(text: string, maximum: number): boolean {
  if (text.length <= maximum) return true; // a code point is one or two UTF-16 units
  if (text.length > 2 * maximum) return false;
  let count = 0;
  for (const _codePoint of text) count++;
  return count <= maximum;
}
