import { Kind, type TSchema } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors';
import type { FastifySchemaCompiler } from 'fastify';
import { ApiError } from './errors.ts';

/**
 * Makes Fastify validate with TypeBox. Bodies are taken as they are; path and query, which can only be text, have
 * their integers converted first; headers stay as they are, in lower case. Every violation of a part is named in one
 * `invalid_request`.
 *
 * @param components the schemas that others refer to by `$id`
 */
export function validatorCompiler(components: readonly TSchema[]): FastifySchemaCompiler<TSchema> {
  return ({ schema, httpPart }) => {
    const type = TypeCompiler.Compile(schema, [...components]);
    const read = readerOf(schema, httpPart);
    return (input: unknown) => {
      const value = read(input);
      if (type.Check(value)) return { value: httpPart === 'headers' ? input : value };
      return { error: new ApiError('invalid_request', describe([...type.Errors(value)], httpPart)) };
    };
  };
}

/** What takes the values to check from what Fastify gives. */
function readerOf(schema: TSchema, httpPart: string | undefined): (input: unknown) => unknown {
  if (httpPart === 'body') return (input) => input;
  const properties = Object.entries<TSchema>(schema.properties);
  return httpPart === 'headers'
    ? (input) => spellHeaders(properties, Object(input))
    : (input) => convertText(properties, Object(input));
}

/** Takes the known names, as they are spelt in the schema, from headers, which Node gives in lower case. */
function spellHeaders(
  properties: readonly [string, TSchema][],
  headers: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name] of properties) {
    const value = headers[name.toLowerCase()];
    if (value !== undefined) values[name] = value;
  }
  return values;
}

/** Integers have one plain spelling: decimal digits, an optional minus, no leading zeros. */
const INTEGER_TEXT = /^(?:0|-?[1-9]\d{0,18})$/;

/** Takes the known names from a path or a query. What is not an integer's text stays text, for the check to refuse. */
function convertText(
  properties: readonly [string, TSchema][],
  texts: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, property] of properties) {
    const text = Object.hasOwn(texts, name) ? texts[name] : undefined;
    if (text === undefined) continue;
    const isInteger = property.type === 'integer' && typeof text === 'string' && INTEGER_TEXT.test(text);
    if (!isInteger) values[name] = text;
    else values[name] = property[Kind] === 'Int64' ? BigInt(text) : Number(text);
  }
  return values;
}

/** One clause for each value that breaks a rule, such as `categoryId is required`. */
function describe(errors: readonly ValueError[], httpPart: string | undefined): string {
  const clauses = new Map<string, string>();
  for (const error of errors) {
    if (clauses.has(error.path)) continue;
    const name = error.path.slice(1).replaceAll('/', '.') || 'The body';
    clauses.set(error.path, `${name} ${rule(error, httpPart)}`);
  }
  return `${[...clauses.values()].join('; ')}.`;
}

function rule({ type, schema, value }: ValueError, httpPart: string | undefined): string {
  if (type === ValueErrorType.ObjectRequiredProperty) return 'is required';
  if (httpPart === 'querystring' && Array.isArray(value)) return 'must be given only once';
  switch (schema[Kind]) {
    case 'Int64':
      return 'must be an integer from -9223372036854775808 to 9223372036854775807';
    case 'Text':
      return `must be a string of at most ${schema.maxLength} characters, without U+0000 or lone surrogates`;
    case 'VisibleAscii':
      return `must be 1 to ${schema.maxLength} visible ASCII characters`;
    case 'StringEnum':
      return `must be one of ${schema.enum.join(', ')}`;
    case 'Integer':
      return `must be an integer from ${schema.minimum} to ${schema.maximum}`;
    default:
      return `must be a JSON ${schema.type}`;
  }
}
