import { type Static, Type } from '@sinclair/typebox';
import { StringEnum, Text } from '../http/types.ts';

const MESSAGE_MAX_LENGTH = 5000;

const message = Text({
  maxLength: MESSAGE_MAX_LENGTH,
  description: 'The text of the message.',
  examples: ['Hello!'],
});

export const NewMessage = Type.Object(
  { message },
  { $id: 'NewMessage', description: 'A message to queue. Members that are not listed are ignored.' },
);

export const Message = Type.Object(
  {
    id: Type.String({ description: '`msg_` and a UUID of version 7.' }),
    message,
    status: StringEnum(['queued'], { description: 'The message is stored, and waits.' }),
    createdAt: Type.String({ format: 'date-time', description: 'ISO 8601, UTC, to the millisecond.' }),
  },
  { $id: 'Message' },
);

export const messageComponents = [NewMessage, Message];

export type Message = Static<typeof Message>;
