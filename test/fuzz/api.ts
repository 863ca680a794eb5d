import { readFileSync } from 'node:fs';

/** What is read here of a schema of the OpenAPI document. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: 'object' | 'array' | 'string' | 'integer';
  readonly enum?: readonly string[];
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

interface Content {
  readonly content?: { readonly 'application/json': { readonly schema: Schema } };
}

interface OperationObject {
  readonly operationId: string;
  readonly servers?: readonly { readonly url: string }[];
  readonly parameters?: readonly { readonly in: string; readonly name: string; readonly schema: Schema }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

interface OpenApiDocument {
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** An operation of the service, as its OpenAPI document has it. */
export interface Operation {
  readonly id: string;
  readonly method: string;
  /** With its base address, and its parameters in braces. */
  readonly path: string;
  /** The parameters of the query, by name. */
  readonly query: ReadonlyMap<string, Schema>;
  readonly body: Schema | undefined;
  readonly success: { readonly status: number; readonly schema: Schema };
}

const document: OpenApiDocument = JSON.parse(
  readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8'),
);

/** A schema itself, where another one refers to it. */
export function resolve(schema: Schema): Schema {
  if (schema.$ref === undefined) return schema;
  const component = document.components.schemas[schema.$ref.replace('#/components/schemas/', '')];
  if (component === undefined) throw new Error(`the document has no ${schema.$ref}`);
  return resolve(component);
}

export const operations: readonly Operation[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => readOperation(path, method, operation)),
);

function readOperation(path: string, method: string, operation: OperationObject): Operation {
  const { operationId, servers = document.servers, parameters = [], requestBody, responses } = operation;
  const [status, response] = Object.entries(responses).find(([status]) => status.startsWith('2')) ?? [];
  const schema = jsonOf(response);
  if (schema === undefined) throw new Error(`${operationId} has no successful answer`);
  return {
    id: operationId,
    method: method.toUpperCase(),
    path: `${servers[0]?.url}${path}`,
    query: new Map(
      parameters.flatMap((parameter) =>
        parameter.in === 'query' ? [[parameter.name, resolve(parameter.schema)]] : [],
      ),
    ),
    body: jsonOf(requestBody),
    success: { status: Number(status), schema },
  };
}

function jsonOf(content: Content | undefined): Schema | undefined {
  const schema = content?.content?.['application/json'].schema;
  return schema && resolve(schema);
}
