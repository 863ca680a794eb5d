import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type EmbeddedPostgres, startPostgres } from './embedded.ts';

/** Starts a PostgreSQL server on data that `stop` deletes. */
export async function startTemporaryPostgres(
  settings: Readonly<Record<string, string>>,
): Promise<EmbeddedPostgres> {
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-'));
  chmodSync(folder, 0o711); // as root, PostgreSQL runs as a user who must pass through
  const postgres = await startPostgres(folder, settings);
  return {
    ...postgres,
    stop: async () => {
      await postgres.stop();
      rmSync(postgres.folder, { recursive: true, force: true });
    },
  };
}
