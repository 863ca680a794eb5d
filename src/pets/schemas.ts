import { type Static, Type } from '@sinclair/typebox';
import { reference } from '../http/openapi.ts';
import { Int64, StringEnum, Text } from '../http/types.ts';

const NAME_MAX_LENGTH = 1000;
export const DEFAULT_LIMIT = 20;
export const MAX_LIMIT = 100;

export const PetStatus = StringEnum(['available', 'pending', 'sold'], {
  $id: 'PetStatus',
  description: 'Availability status.',
});

const newPetProperties = {
  name: Text({ maxLength: NAME_MAX_LENGTH, description: "The animal's name.", examples: ['Mittens'] }),
  categoryId: Int64({
    description: 'Identifier of the category the animal belongs to.',
    examples: [7],
  }),
  status: Type.Optional(reference(PetStatus)),
};

export const NewPet = Type.Object(newPetProperties, {
  $id: 'NewPet',
  description: 'An animal to add. Members that are not listed are ignored.',
});

export const Pet = Type.Object(
  {
    id: Int64({ description: 'Unique identifier, assigned by the service on creation.', examples: [1] }),
    ...newPetProperties,
  },
  { $id: 'Pet', description: 'An animal. `status` is left out where none was given.' },
);

export const Pets = Type.Array(reference(Pet), { $id: 'Pets', description: 'Animals, newest first.' });

export const petComponents = [PetStatus, NewPet, Pet, Pets];

export const PetsQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LIMIT,
      default: DEFAULT_LIMIT,
      description: 'Maximum number of animals to return.',
    }),
  ),
  status: Type.Optional(reference(PetStatus)),
  cursor: Type.Optional(
    Type.String({
      description: 'Where the page begins, as the `Link` of the page before it gives it. Opaque.',
    }),
  ),
});

export const PetPath = Type.Object({
  petId: Int64({ description: 'Identifier of the animal.', examples: [1] }),
});

export type PetStatus = Static<typeof PetStatus>;
export type NewPet = Static<typeof NewPet>;
export type Pet = Static<typeof Pet>;
