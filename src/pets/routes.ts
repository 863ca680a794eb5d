import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Database } from '../db/database.ts';
import { announceDeprecation, type Clock, isRemoved } from '../http/deprecation.ts';
import { ApiError } from '../http/errors.ts';
import { errorResponses, jsonResponse, reference } from '../http/openapi.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { createPet, findPet, listPets, type PageRequest } from './repository.ts';
import { DEFAULT_LIMIT, NewPet, Pet, PetPath, Pets, PetsQuery } from './schemas.ts';

const getPetDeprecation = {
  deprecatedAt: new Date('2026-11-20T00:00:00Z'),
  sunsetAt: new Date('2030-12-05T00:00:00Z'),
  documentation: '/openapi.json',
  successor: '/v1/pets',
};

/** The operations of the tag `animals` (interface: Endpoints). */
export const petRoutes: FastifyPluginAsyncTypebox<{ db: Database; clock: Clock }> = async (
  app,
  { db, clock },
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
    async ({ query: { limit = DEFAULT_LIMIT, status, cursor } }, reply) => {
      const before = cursor === undefined ? undefined : decodeCursor(cursor);
      const found = await listPets(db, { limit: limit + 1, status, before }); // one more tells of a next page
      const page = found.slice(0, limit);
      const last = page.at(-1);
      if (found.length > limit && last !== undefined) {
        reply.header('link', linkToNext({ limit, status, before: last.id }));
      }
      return page;
    },
  );

  app.post(
    '/pets',
    {
      schema: {
        operationId: 'createPet',
        summary: 'Add an animal',
        tags: ['animals'],
        body: reference(NewPet),
        response: {
          201: jsonResponse('Animal added.', Pet, {
            Location: 'The address of the animal, as long as `getPet` exists.',
          }),
          ...errorResponses(400, 401, 413, 415),
        },
      },
    },
    async ({ body }, reply) => {
      const pet = await createPet(db, body);
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
    async ({ params, validationError }) => {
      const pet = validationError === undefined ? await findPet(db, params.petId) : undefined;
      if (pet === undefined) throw new ApiError('pet_not_found', 'There is no animal with this petId.');
      return pet;
    },
  );
};

function linkToNext({ limit, status, before }: PageRequest & { before: bigint }): string {
  const query = new URLSearchParams({
    limit: `${limit}`,
    ...(status && { status }),
    cursor: encodeCursor(before),
  });
  return `<?${query}>; rel="next"`;
}
