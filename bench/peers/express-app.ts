import express, { type ErrorRequestHandler } from 'express';
import { ZodError, z } from 'zod';
import {
  BODY_LIMIT_BYTES,
  DEFAULT_LIMIT,
  decodeCursor,
  HttpError,
  hashOfKey,
  MAX_LIMIT,
  NAME_MAX_LENGTH,
  type NewPet,
  type PageRequest,
  type Pet,
  petNotFound,
  petStatuses,
  queryOfNext,
  toErrorBody,
} from './protocol.ts';

export interface Store {
  /** Finds the key of a SHA-256, if it is neither revoked nor expired. */
  findKey(hash: Buffer): Promise<{ id: string } | undefined>;
  /** A page of animals, newest first. */
  listPets(page: PageRequest): Promise<Pet[]>;
  findPet(id: number): Promise<Pet | undefined>;
  createPet(pet: NewPet): Promise<Pet>;
  close(): Promise<void>;
}

const PetStatusSchema = z.enum(petStatuses);
const PetsQuerySchema = z.object({
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT),
  status: PetStatusSchema.optional(),
  cursor: z.string().transform(decodeCursor).optional(),
});
const PetPathSchema = z.object({ petId: z.coerce.number().int() });
const NewPetSchema = z.object({
  name: z.string().max(NAME_MAX_LENGTH),
  categoryId: z.int(),
  status: PetStatusSchema.optional(),
});

const sendError: ErrorRequestHandler = (error, _request, response, next) => {
  if (response.headersSent) return next(error);
  const body = toErrorBody(
    error instanceof ZodError ? new HttpError(400, 'invalid_request', z.prettifyError(error)) : error,
  );
  response.status(body.status).json(body);
};

/** Answers on 127.0.0.1 until SIGTERM. */
export function serve(store: Store): void {
  const app = express();
  app.disable('x-powered-by');

  const v1 = express.Router();

  v1.use(async (request, _response, next) => {
    const key = await store.findKey(hashOfKey(request.headers.authorization));
    if (key === undefined) throw new HttpError(401, 'invalid_api_key', 'The API key is not valid.');
    next();
  });

  v1.use(express.json({ limit: BODY_LIMIT_BYTES }));

  v1.get('/pets', async (request, response) => {
    const { limit, status, cursor: before } = PetsQuerySchema.parse(request.query);
    const found = await store.listPets({ limit: limit + 1, status, before }); // one more tells of a next page
    const page = found.slice(0, limit);
    const last = page.at(-1);
    if (found.length > limit && last !== undefined) {
      response.links({ next: queryOfNext({ limit, status, before: last.id }) });
    }
    response.json(page);
  });

  v1.get('/pets/:petId', async (request, response) => {
    const { data: path } = PetPathSchema.safeParse(request.params);
    const pet = path && (await store.findPet(path.petId)); // a petId that is no integer names no animal
    if (pet === undefined) throw petNotFound();
    response.json(pet);
  });

  v1.post('/pets', async (request, response) => {
    const pet = await store.createPet(NewPetSchema.parse(request.body));
    response.status(201).location(`/v1/pets/${pet.id}`).json(pet);
  });

  app.use('/v1', v1);

  app.use(() => {
    throw new HttpError(404, 'route_not_found', 'There is no such operation.');
  });
  app.use(sendError);

  const server = app.listen(Number(process.env.PORT), '127.0.0.1');
  process.once('SIGTERM', () => server.close(() => store.close()));
}
