import { readFile } from 'node:fs/promises';
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Service, startService } from './support/service.ts';

interface Operation {
  operationId: string;
  tags: string[];
  deprecated?: boolean;
  servers?: { url: string }[];
  requestBody?: { required: boolean; content: Record<string, { schema: unknown }> };
  parameters?: { name: string; in: string; required?: boolean; schema: Record<string, unknown> }[];
  responses: Record<string, { content?: Record<string, { schema: { $ref?: string } }>; headers?: object }>;
}

interface Document {
  openapi: string;
  info: { version: string };
  servers: { url: string }[];
  security: object[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Record<string, unknown>>; securitySchemes: object };
}

let service: Service;
let document: Document;
beforeAll(async () => {
  service = await startService();
  document = (await service.request('/openapi.json', { key: null })).json as Document;
});
afterAll(() => service.stop());

describe('GET /openapi.json describes the interface', () => {
  test('it is served without a key, as JSON', async () => {
    const { status, headers } = await service.request('/openapi.json', { key: null });
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json\b/);
  });

  test('it is valid OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate({ ...document });
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(document.info.version).toBe('1.0.0');
  });

  test('it is the committed openapi.json (else: npm run openapi)', async () => {
    const committed = await readFile(new URL('../openapi.json', import.meta.url), 'utf8');
    expect(JSON.parse(committed)).toEqual(document);
  });

  test('its server is /v1, and its scheme is bearer on every operation', () => {
    expect(document.servers).toEqual([{ url: '/v1' }]);
    expect(document.security).toEqual([{ apiKey: [] }]);
    expect(document.components.securitySchemes).toEqual({ apiKey: { type: 'http', scheme: 'bearer' } });
  });

  test('it has exactly the operations of the interface, and the quickstart under a server of its own', () => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId, tags, deprecated = false, servers }]) => ({
        ...{ operation: `${method} ${path}`, operationId, tags, deprecated },
        ...(servers && { servers }),
      })),
    );
    expect(operations).toEqual([
      { operation: 'get /pets', operationId: 'listPets', tags: ['animals'], deprecated: false },
      { operation: 'post /pets', operationId: 'createPet', tags: ['animals'], deprecated: false },
      { operation: 'get /pets/{petId}', operationId: 'getPet', tags: ['animals'], deprecated: true },
      {
        ...{
          operation: 'post /messages',
          operationId: 'createMessage',
          tags: ['quickstart'],
          deprecated: false,
        },
        servers: [{ url: '/quickstart' }],
      },
    ]);
  });

  test('its components are named, and int64 is integer of format int64', () => {
    const { schemas } = document.components;
    expect(Object.keys(schemas).sort()).toEqual(
      ['Error', 'Message', 'NewMessage', 'NewPet', 'Pet', 'PetStatus', 'Pets'].sort(),
    );
    expect(schemas.PetStatus).toMatchObject({ type: 'string', enum: ['available', 'pending', 'sold'] });
    expect(schemas.NewPet).toMatchObject({
      required: ['name', 'categoryId'],
      properties: {
        name: { type: 'string' },
        categoryId: { type: 'integer', format: 'int64' },
        status: { $ref: '#/components/schemas/PetStatus' },
      },
    });
    expect(schemas.Pet).toMatchObject({
      required: ['id', 'name', 'categoryId'],
      properties: { id: { type: 'integer', format: 'int64' } },
    });
    expect(schemas.Pets).toMatchObject({ type: 'array', items: { $ref: '#/components/schemas/Pet' } });
    expect(schemas.Error).toMatchObject({ required: ['code', 'message', 'status'] });
  });

  test('limit has its bounds and its default, petId its format', () => {
    const parameters = document.paths['/pets']?.get?.parameters ?? [];
    expect(parameters.map(({ name, in: place, required }) => [name, place, required ?? false])).toEqual([
      ['limit', 'query', false],
      ['status', 'query', false],
      ['cursor', 'query', false],
    ]);
    expect(parameters[0]?.schema).toMatchObject({ type: 'integer', minimum: 1, maximum: 100, default: 20 });
    expect(document.paths['/pets/{petId}']?.get?.parameters?.[0]).toMatchObject({
      ...{ name: 'petId', in: 'path', required: true },
      schema: { type: 'integer', format: 'int64' },
    });
  });

  test('every refusal is an Error', () => {
    for (const operation of Object.values(document.paths).flatMap((methods) => Object.values(methods))) {
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(['401', 'default']));
      for (const [status, { content }] of Object.entries(operation.responses)) {
        if (status < '400') continue;
        expect(content?.['application/json']?.schema).toEqual({ $ref: '#/components/schemas/Error' });
      }
    }
  });
});
