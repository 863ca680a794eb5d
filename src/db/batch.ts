import { isDataError, Overloaded } from './errors.ts';

/** Calls that one statement answers at the most. */
const MAX_BATCH_SIZE = 256;

/** Calls that may wait for a statement: what comes on top of them is refused at once. */
const MAX_WAITING = 4096;

/** The two ways in which calls of one kind are answered. */
export interface Statements<Call, Result> {
  /** The plain statement, for a call that is alone. */
  one(call: Call): Promise<Result>;
  /** One statement for at least two calls; the results are in the order of the calls. */
  many(calls: readonly Call[]): Promise<readonly Result[]>;
}

interface Waiting<Call, Result> {
  call: Call;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/**
 * Gathers calls of one kind that come in at the same time, and answers them by one statement.
 *
 * One statement is under way at a time. A call that comes in meanwhile waits for it to end, and leaves together with
 * all that wait by then; a call that finds none under way leaves as soon as the event loop has handled all input that
 * has arrived, which no timer delays. So an idle service answers as fast as it would without this, and one under load
 * sends the database a fraction of the statements. Every answer is as fresh as that of a statement of one's own: the
 * statement leaves after all of its calls came in.
 */
export class Batcher<Call, Result> {
  readonly #statements: Statements<Call, Result>;
  #waiting: Waiting<Call, Result>[] = [];
  #isRunning = false;

  constructor(statements: Statements<Call, Result>) {
    this.#statements = statements;
  }

  /** @throws Overloaded where too many calls wait already; else what the statement throws */
  call(call: Call): Promise<Result> {
    if (this.#waiting.length >= MAX_WAITING) return Promise.reject(new Overloaded());
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0) {
      await endOfTurn();
      const batch = this.#waiting;
      this.#waiting = batch.splice(MAX_BATCH_SIZE);
      await this.#answer(batch);
    }
    this.#isRunning = false;
  }

  async #answer(batch: readonly Waiting<Call, Result>[]): Promise<void> {
    const [first] = batch;
    if (first !== undefined && batch.length === 1) return void (await this.#answerAlone(first));
    try {
      const results = await this.#statements.many(batch.map(({ call }) => call));
      if (results.length !== batch.length) throw new Error('a statement did not answer each of its calls');
      for (const [index, result] of results.entries()) batch[index]?.resolve(result);
    } catch (error) {
      if (isDataError(error)) return this.#answerEach(batch);
      for (const { reject } of batch) reject(error);
    }
  }

  /** One call's data can fail a statement that others share: so each gets one of its own, as long as that can work. */
  async #answerEach(batch: readonly Waiting<Call, Result>[]): Promise<void> {
    let isHopeless = false;
    for (const waiting of batch) {
      if (isHopeless) waiting.reject(new Overloaded());
      else isHopeless = !(await this.#answerAlone(waiting));
    }
  }

  /** @returns false where another call would fail, too */
  async #answerAlone({ call, resolve, reject }: Waiting<Call, Result>): Promise<boolean> {
    try {
      resolve(await this.#statements.one(call));
      return true;
    } catch (error) {
      reject(error);
      return isDataError(error);
    }
  }
}

/** Until the event loop has handled all input that has arrived: half as many statements as without it (measured). */
function endOfTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
