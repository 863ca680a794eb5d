import type { Value } from './values.ts';

/** What one client has learnt from the answers it got, to make its next requests of. */
export class Memory {
  /** The animals that it added: their ids, and the answers. */
  readonly pets: { readonly id: bigint; readonly status: Value | undefined; readonly pet: unknown }[] = [];
  /** The cursors that it was given. */
  readonly cursors: string[] = [];
  /** What it created with an Idempotency-Key. */
  readonly creations: Creation[] = [];
  /** The uses of an Idempotency-Key that nothing was created with, since the requests were refused. */
  readonly refused: KeyUse[] = [];
  /** Every use of an Idempotency-Key so far, as text. */
  readonly uses = new Set<string>();
}

/** What an Idempotency-Key belongs to: an operation, and the account of an API key. */
export interface KeyUse {
  readonly operationId: string;
  readonly apiKey: string;
  readonly idempotencyKey: string;
}

export interface Creation extends KeyUse {
  readonly members: ReadonlyMap<string, Value>;
  readonly resource: unknown;
}
