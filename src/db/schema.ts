import type { ColumnType, Generated } from 'kysely';

/** The tables, as `migrations/` makes them. int8 is a bigint, timestamptz a Date. */
export interface Tables {
  pets: {
    id: Generated<bigint>;
    name: string;
    category_id: bigint;
    status: 'available' | 'pending' | 'sold' | null;
  };
  messages: {
    id: string;
    message: string;
    status: 'queued';
    created_at: Generated<Date>;
  };
  idempotency_keys: {
    account_id: string;
    operation: 'createPet' | 'createMessage';
    key: string;
    fingerprint: Buffer;
    /** The id of what was created, as text. */
    resource_id: string;
    created_at: Generated<Date>;
  };
  accounts: {
    id: Generated<string>;
    name: string;
    created_at: Generated<Date>;
  };
  api_keys: {
    id: Generated<string>;
    account_id: string;
    name: string;
    hash: Buffer;
    hint: string;
    created_at: Generated<Date>;
    expires_at: Date | null;
    revoked_at: Date | null;
    last_used_at: Date | null;
  };
  audit_events: {
    id: ColumnType<bigint, never, never>;
    occurred_at: ColumnType<Date, never, never>;
    actor: string;
    action: 'account.created' | 'key.created' | 'key.rotated' | 'key.revoked';
    account_id: string;
    key_id: string | null;
    details: Generated<Record<string, string>>;
  };
}
