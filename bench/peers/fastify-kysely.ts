import Fastify from 'fastify';
import { type Generated, Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import {
  BODY_LIMIT_BYTES,
  DEFAULT_LIMIT,
  decodeCursor,
  HttpError,
  hashOfKey,
  MAX_LIMIT,
  NAME_MAX_LENGTH,
  type NewPet,
  type PetStatus,
  petNotFound,
  petStatuses,
  queryOfNext,
  toErrorBody,
  toPet,
} from './protocol.ts';

interface Tables {
  pets: { id: Generated<number>; name: string; category_id: number; status: PetStatus | null };
  api_keys: { id: string; hash: Buffer; expires_at: Date | null; revoked_at: Date | null };
}

pg.types.setTypeParser(pg.types.builtins.INT8, Number);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
const petColumns = ['id', 'name', 'category_id as categoryId', 'status'] as const;

const int8 = { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
const status = { type: 'string', enum: petStatuses };
const newPetProperties = { name: { type: 'string', maxLength: NAME_MAX_LENGTH }, categoryId: int8, status };
const newPetSchema = { type: 'object', required: ['name', 'categoryId'], properties: newPetProperties };
const petSchema = {
  type: 'object',
  required: ['id', 'name', 'categoryId'],
  properties: { id: int8, ...newPetProperties },
};
const petsQuerySchema = {
  type: 'object',
  properties: {
    limit: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
    status,
    cursor: { type: 'string' },
  },
};
const petPathSchema = { type: 'object', required: ['petId'], properties: { petId: int8 } };
const errorSchema = {
  type: 'object',
  required: ['code', 'message', 'status'],
  properties: { code: { type: 'string' }, message: { type: 'string' }, status: { type: 'integer' } },
};
const errorResponses = { '4xx': errorSchema, '5xx': errorSchema };

const app = Fastify({ bodyLimit: BODY_LIMIT_BYTES });

app.setErrorHandler((error, _request, reply) => {
  const body = toErrorBody(error);
  return reply.code(body.status).send(body);
});

app.register(
  async (v1) => {
    v1.addHook('onRequest', async (request) => {
      const key = await db
        .selectFrom('api_keys')
        .select('id')
        .where('hash', '=', hashOfKey(request.headers.authorization))
        .where('revoked_at', 'is', null)
        .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', sql<Date>`now()`)]))
        .executeTakeFirst();
      if (key === undefined) throw new HttpError(401, 'invalid_api_key', 'The API key is not valid.');
    });

    // Unknown paths under /v1 ask for a key only where the scope has a handler of its own for them.
    v1.setNotFoundHandler(() => {
      throw new HttpError(404, 'route_not_found', 'There is no such operation.');
    });

    v1.get<{ Querystring: { limit: number; status?: PetStatus; cursor?: string } }>(
      '/pets',
      {
        schema: {
          querystring: petsQuerySchema,
          response: { 200: { type: 'array', items: petSchema }, ...errorResponses },
        },
      },
      async ({ query: { limit, status, cursor } }, reply) => {
        let query = db
          .selectFrom('pets')
          .select(petColumns)
          .orderBy('id', 'desc')
          .limit(limit + 1); // one more tells of a next page
        if (status !== undefined) query = query.where('status', '=', status);
        if (cursor !== undefined) query = query.where('id', '<', decodeCursor(cursor));
        const rows = await query.execute();
        const page = rows.slice(0, limit);
        const last = page.at(-1);
        if (rows.length > limit && last !== undefined) {
          reply.header('link', `<${queryOfNext({ limit, status, before: last.id })}>; rel="next"`);
        }
        return page.map(toPet);
      },
    );

    v1.get<{ Params: { petId: number } }>(
      '/pets/:petId',
      {
        attachValidation: true, // a petId that is no integer names no animal: 404, not 400
        schema: { params: petPathSchema, response: { 200: petSchema, ...errorResponses } },
      },
      async ({ params: { petId }, validationError }) => {
        if (validationError !== undefined) throw petNotFound();
        const row = await db.selectFrom('pets').select(petColumns).where('id', '=', petId).executeTakeFirst();
        if (row === undefined) throw petNotFound();
        return toPet(row);
      },
    );

    v1.post<{ Body: NewPet }>(
      '/pets',
      { schema: { body: newPetSchema, response: { 201: petSchema, ...errorResponses } } },
      async ({ body: { name, categoryId, status } }, reply) => {
        const row = await db
          .insertInto('pets')
          .values({ name, category_id: categoryId, status: status ?? null })
          .returning(petColumns)
          .executeTakeFirstOrThrow();
        return reply.code(201).header('location', `/v1/pets/${row.id}`).send(toPet(row));
      },
    );
  },
  { prefix: '/v1' },
);

app.addHook('onClose', () => db.destroy());
process.once('SIGTERM', () => app.close());
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
