import { createHash } from 'node:crypto';

/** What the interface of the animal store says, apart from any framework and any database library. */

export const petStatuses = ['available', 'pending', 'sold'] as const;
export type PetStatus = (typeof petStatuses)[number];

export const DEFAULT_LIMIT = 20;
export const MAX_LIMIT = 100;
export const NAME_MAX_LENGTH = 1000;
export const BODY_LIMIT_BYTES = 64 * 1024;

export interface NewPet {
  name: string;
  categoryId: number;
  status?: PetStatus | undefined;
}

export interface Pet extends NewPet {
  id: number;
}

export interface PetRow {
  id: number;
  name: string;
  categoryId: number;
  status: PetStatus | null;
}

export interface PageRequest {
  limit: number;
  status?: PetStatus | undefined;
  /** Only animals with a lower id than this. */
  before?: number | undefined;
}

/** The interface leaves a status out where none was given. */
export function toPet({ status, ...pet }: PetRow): Pet {
  return status === null ? pet : { ...pet, status };
}

export class HttpError extends Error {
  readonly statusCode: number;
  readonly code: string;

  constructor(statusCode: number, code: string, message: string) {
    super(message);
    this.statusCode = statusCode;
    this.code = code;
  }
}

export function petNotFound(): HttpError {
  return new HttpError(404, 'pet_not_found', 'There is no such animal.');
}

export interface ErrorBody {
  code: string;
  message: string;
  status: number;
}

/** Takes Fastify's own errors and those of Express's body parser too: both carry a `statusCode`. */
export function toErrorBody(error: unknown): ErrorBody {
  if (error instanceof Error && 'statusCode' in error) {
    const { message, statusCode: status } = error;
    if (typeof status === 'number' && status < 500) {
      return { code: error instanceof HttpError ? error.code : 'invalid_request', message, status };
    }
  }
  return { code: 'internal_error', message: 'The service failed to answer.', status: 500 };
}

/** The SHA-256 by which the key of an Authorization header is stored. */
export function hashOfKey(authorization: string | undefined): Buffer {
  const key = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (key === undefined) throw new HttpError(401, 'missing_api_key', 'An API key is required.');
  return createHash('sha256').update(key).digest();
}

export function decodeCursor(cursor: string): number {
  const digits = /^before:(\d{1,16})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1'))?.[1];
  const id = Number(digits);
  if (!Number.isSafeInteger(id)) throw new HttpError(400, 'invalid_cursor', 'The cursor is not valid.');
  return id;
}

/** The query that asks for the page after the animal with the id `before`. */
export function queryOfNext({ limit, status, before }: PageRequest & { before: number }): string {
  const cursor = Buffer.from(`before:${before}`).toString('base64url');
  return `?${new URLSearchParams({ limit: `${limit}`, ...(status && { status }), cursor })}`;
}
