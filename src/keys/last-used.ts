import type { Logger } from 'pino';

const FLUSH_DELAY_MS = 1000;
const REST_MS = 60_000;

/**
 * Gathers which keys were used and has them written together, a second after the first of them: at most one
 * statement a second, and at most one write a minute for a key, however many requests come in.
 */
export class LastUsedRecorder {
  readonly #write: (keyIds: string[]) => Promise<void>;
  readonly #logger: Logger;
  readonly #pending = new Set<string>();
  /** By key: when it was last written, on the clock of `performance.now()`. */
  readonly #writtenAt = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (keyIds: string[]) => Promise<void>, logger: Logger) {
    this.#write = write;
    this.#logger = logger;
  }

  note(keyId: string): void {
    if (this.#isResting(keyId)) return;
    this.#pending.add(keyId);
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_DELAY_MS);
  }

  /** Writes what is pending. A failure is logged, and made good by the next use of the key. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const keyIds = [...this.#pending];
    this.#pending.clear();
    if (keyIds.length === 0) return;
    try {
      await this.#write(keyIds);
    } catch (error) {
      this.#logger.warn({ err: error }, 'could not note when keys were last used');
      return;
    }
    for (const keyId of this.#writtenAt.keys()) {
      if (!this.#isResting(keyId)) this.#writtenAt.delete(keyId);
    }
    for (const keyId of keyIds) this.#writtenAt.set(keyId, performance.now());
  }

  #isResting(keyId: string): boolean {
    const writtenAt = this.#writtenAt.get(keyId);
    return writtenAt !== undefined && performance.now() - writtenAt < REST_MS;
  }
}
