-- What the roles of the service and of the command line may do, and nothing more. Run it as the owner of the tables,
-- after each migration:
--
--   psql "$DATABASE_URL" -v ON_ERROR_STOP=1 -f deploy/grants.sql
--
-- It may be run any number of times, also while the service is serving: it takes effect as a whole.
BEGIN;

REVOKE ALL ON pets, messages, idempotency_keys, accounts, api_keys, audit_events, kysely_migration
  FROM animal_store_service, animal_store_operator;
REVOKE ALL ON SEQUENCE pets_id_seq FROM animal_store_service, animal_store_operator;

-- No role but the owner makes tables, temporary ones included. (A new database lets everybody make these.)
REVOKE CREATE ON SCHEMA public FROM PUBLIC, animal_store_service, animal_store_operator;
GRANT USAGE ON SCHEMA public TO animal_store_service, animal_store_operator;
DO $$
BEGIN
  EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format(
    'GRANT CONNECT ON DATABASE %I TO animal_store_service, animal_store_operator', current_database());
END
$$;

-- Both refuse a schema that is not current.
GRANT SELECT (name) ON kysely_migration TO animal_store_service, animal_store_operator;

-- The service: npm start. It adds animals and messages and never changes one; of a key it writes only when it was used.
GRANT SELECT (id, name, category_id, status), INSERT (id, name, category_id, status)
  ON pets TO animal_store_service;
GRANT USAGE ON SEQUENCE pets_id_seq TO animal_store_service;
GRANT SELECT (id, message, created_at), INSERT (id, message, status)
  ON messages TO animal_store_service;
GRANT SELECT (account_id, operation, key, fingerprint, resource_id),
      INSERT (account_id, operation, key, fingerprint, resource_id)
  ON idempotency_keys TO animal_store_service;
GRANT SELECT (id, account_id, hash, hint, expires_at, revoked_at, last_used_at), UPDATE (last_used_at)
  ON api_keys TO animal_store_service;

-- The command line: npm run accounts, npm run keys. It never reads a hash, and only ever adds to the audit.
GRANT SELECT (id, name), INSERT (name)
  ON accounts TO animal_store_operator;
GRANT SELECT (id, account_id, name, hint, created_at, expires_at, revoked_at, last_used_at),
      INSERT (account_id, name, hash, hint, expires_at),
      UPDATE (expires_at, revoked_at)
  ON api_keys TO animal_store_operator;
GRANT INSERT (actor, action, account_id, key_id, details)
  ON audit_events TO animal_store_operator;

COMMIT;
