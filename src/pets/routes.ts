import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { announceDeprecation, type Clock, isRemoved } from '../http/deprecation.ts';
import { startBy } from '../http/deadline.ts';
import { ApiError } from '../http/errors.ts';
import { errorResponses, jsonResponse, reference } from '../http/openapi.ts';
import { sendSharedRows } from '../http/shared-rows.ts';
import { IdempotencyHeaders, idempotencyKeyOf } from '../idempotency/header.ts';
import { decodeCursor, encodeCursor, HIGHEST_ID } from './cursor.ts';
import type { PageRequest } from './pages.ts';
import type { PetRepository } from './repository.ts';
import { DEFAULT_LIMIT, NewPet, Pet, PetPath, Pets, PetsQuery } from './schemas.ts';

const getPetDeprecation = {
  deprecatedAt: new Date('2026-11-20T00:00:00Z'),
  sunsetAt: new Date('2030-12-05T00:00:00Z'),
  documentation: '/openapi.json',
  successor: '/v1/pets',
};

/** The operations of the tag `animals` (interface: Endpoints). */
export const petRoutes: FastifyPluginAsyncTypebox<{ pets: PetRepository; clock: Clock }> = async (
  app,
  { pets, clock },
) => {
  app.get(
    '/pets',
    {
      schema: {
        operationId: 'listPets',
        summary: 'List animals',
        description: 'Returns a paginated list of animals, newest first.',
        tags: ['animals'],
        querystring: PetsQuery,
        response: {
          200: jsonResponse('A page of animals.', Pets, {
            Link: 'The next page, where there is one: `<?...>; rel="next"` (RFC 8288).',
          }),
          ...errorResponses(400, 401),
        },
      },
    },
    async (request, reply) => {
      const { limit = DEFAULT_LIMIT, status, cursor } = request.query;
      const from = cursor === undefined ? HIGHEST_ID : decodeCursor(cursor);
      const found = await pets.list({ limit, status, from }, startBy(request));
      const last = found.pets[limit - 1];
      if (last !== undefined && found.pets.length > limit) {
        reply.header('link', linkToNext({ limit, status }, last.id));
      }
      return found.isShared
        ? sendSharedRows(reply, { rows: found.pets, count: limit, schema: Pet })
        : found.pets.slice(0, limit);
    },
  );

  app.post(
    '/pets',
    {
      schema: {
        operationId: 'createPet',
        summary: 'Add an animal',
        tags: ['animals'],
        headers: IdempotencyHeaders,
        body: reference(NewPet),
        response: {
          201: jsonResponse('Animal added.', Pet, {
            Location: 'The address of the animal, as long as `getPet` exists.',
          }),
          ...errorResponses(400, 401, 413, 415, 422),
        },
      },
    },
    async (request, reply) => {
      const idempotencyKey = idempotencyKeyOf(request);
      const pet = await pets.create(request.body, idempotencyKey, startBy(request));
      if (!isRemoved(getPetDeprecation, clock)) reply.header('location', `/v1/pets/${pet.id}`);
      return reply.code(201).send(pet);
    },
  );

  app.get(
    '/pets/:petId',
    {
      onRequest: announceDeprecation(getPetDeprecation, clock),
      attachValidation: true, // a petId that is no int64 names no animal: 404, not 400
      schema: {
        operationId: 'getPet',
        summary: 'Get an animal',
        description: 'Deprecated, and removed on 5 December 2030. Use `GET /pets` with the `status` filter.',
        tags: ['animals'],
        deprecated: true,
        params: PetPath,
        response: {
          200: jsonResponse('The requested animal.', Pet, {
            Deprecation: 'Since when the operation is deprecated (RFC 9745).',
            Sunset: 'When the operation is removed (RFC 8594).',
            Link: '`rel="deprecation"` and `rel="successor-version"`.',
          }),
          ...errorResponses(401, 404, 410),
        },
      },
    },
    async (request) => {
      const { params, validationError } = request;
      const pet = validationError === undefined ? await pets.find(params.petId, startBy(request)) : undefined;
      if (pet === undefined) throw new ApiError('pet_not_found', 'There is no animal with this petId.');
      return pet;
    },
  );
};

function linkToNext({ limit, status }: Omit<PageRequest, 'from'>, lastId: bigint): string {
  const filter = status === undefined ? '' : `&status=${status}`;
  return `<?limit=${limit}${filter}&cursor=${encodeCursor(lastId)}>; rel="next"`;
}
