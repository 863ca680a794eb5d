-- What was created under an Idempotency-Key. A row is written in the transaction of the resource itself, and is there
-- for good. Its primary key holds account_id, by which the table can be distributed.
CREATE TABLE idempotency_keys (
  account_id  uuid NOT NULL,
  operation   text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  resource_id text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account_id, operation, key)
);
