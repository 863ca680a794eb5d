import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Batcher } from '../src/db/batch.ts';
import { NotSent } from '../src/db/errors.ts';

const MOST_CALLS = 256;
const MOST_WAITING = 4096;
/** So late that no call is refused for it where a test does not mean to. */
const IN_TIME = Number.POSITIVE_INFINITY;
/** Turns of the event loop after which everything in a simulation has come to its end. */
const MOST_TURNS = 20_000;

interface Call {
  id: number;
  /** The SQLSTATE with which every statement fails that holds this call's data. */
  guiltyOf?: string | undefined;
}

interface Answer {
  to: number;
}

class DatabaseError extends Error {
  readonly code: string;
  constructor(code: string) {
    super(`simulated: ${code}`);
    this.code = code;
  }
}

const FAILURES = {
  'a broken connection': () => new DatabaseError('ECONNRESET'),
  'a terminated connection': () => new Error('Connection terminated unexpectedly'),
  'a cancelled statement': () => new DatabaseError('57014'),
  'a full disk': () => new DatabaseError('53100'),
  'a serialization failure': () => new DatabaseError('40001'),
  'a missing table': () => new DatabaseError('42P01'),
  'a fault of the program': () => new TypeError('undefined is not a function'),
  'something that is no error': () => 'thrown',
};

type Failure = keyof typeof FAILURES;
const isFailure = (fate: string): fate is Failure => Object.hasOwn(FAILURES, fate);
const failures = Object.keys(FAILURES).filter(isFailure);

/** What the database does with a statement, besides minding its data. */
interface Behaviour {
  turns: number;
  fate: 'well' | 'one answer less' | 'one answer more' | 'no answer' | Failure;
}

interface Statement {
  kind: 'one' | 'many';
  calls: readonly Call[];
  sentAt: number;
  endedAt: number;
  failure?: { reason: unknown; isOfData: boolean };
  /** How many answers it gave. */
  answers?: number;
}

/** A database that behaves as it is told, statement by statement, and keeps a record. */
class Simulation {
  readonly statements: Statement[] = [];
  readonly #behaviours: readonly Behaviour[];
  #time = 0;

  constructor(behaviours: readonly Behaviour[] = []) {
    this.#behaviours = behaviours;
  }

  now(): number {
    return ++this.#time;
  }

  async one(call: Call): Promise<Answer> {
    const [answer] = await this.#run('one', [call]);
    if (answer === undefined) throw new Error('one call, one answer');
    return answer;
  }

  many(calls: readonly Call[]): Promise<Answer[]> {
    return this.#run('many', calls);
  }

  async #run(kind: Statement['kind'], calls: readonly Call[]): Promise<Answer[]> {
    const { turns, fate }: Behaviour = this.#behaviours[this.statements.length] ?? { turns: 1, fate: 'well' };
    const sent = [...calls];
    const statement: Statement = { kind, calls: sent, sentAt: this.now(), endedAt: Number.POSITIVE_INFINITY };
    this.statements.push(statement);
    const fail = (reason: unknown, isOfData: boolean): never => {
      statement.failure = { reason, isOfData };
      throw reason;
    };
    for (let passed = 0; passed < turns; passed++) await turn();
    expect(calls, 'calls joined a statement that was sent already').toEqual(sent);
    statement.endedAt = this.now();
    const guilty = sent.find(({ guiltyOf }) => guiltyOf !== undefined);
    if (guilty?.guiltyOf !== undefined) fail(new DatabaseError(guilty.guiltyOf), true);
    if (isFailure(fate)) fail(FAILURES[fate](), false);
    const answers = sent.map(({ id }) => ({ to: id }));
    if (kind === 'many' && fate === 'one answer less') answers.pop();
    if (kind === 'many' && fate === 'one answer more') answers.push({ to: -1 });
    if (kind === 'many' && fate === 'no answer') answers.length = 0;
    statement.answers = answers.length;
    return answers;
  }
}

interface Asked {
  call: Call;
  cameInAt: number;
  outcome?: { answer: Answer } | { error: unknown };
}

/** Makes a call, and notes what comes of it. */
function ask(batcher: Batcher<Call, Answer>, simulation: Simulation, call: Call): Asked {
  const asked: Asked = { call, cameInAt: simulation.now() };
  batcher.call(call, IN_TIME).then(
    (answer) => {
      asked.outcome = { answer };
    },
    (error: unknown) => {
      asked.outcome = { error };
    },
  );
  return asked;
}

async function allSettled(asked: readonly Asked[]): Promise<void> {
  for (let passed = 0; passed < MOST_TURNS; passed++) {
    if (asked.every(({ outcome }) => outcome !== undefined)) return;
    await turn();
  }
  expect.fail('a call was lost');
}

/** Calls that come in at the same time, and how the next ones come after them. */
interface Arrival {
  calls: { guiltyOf?: string | undefined }[];
  next: 'at once' | 'after a promise' | number;
}

/** Has calls come in as told, and waits for all of them. */
async function simulate(arrivals: readonly Arrival[], behaviours: readonly Behaviour[]) {
  const simulation = new Simulation(behaviours);
  const batcher = new Batcher<Call, Answer>(simulation);
  const asked: Asked[] = [];
  for (const { calls, next } of arrivals) {
    for (const call of calls) asked.push(ask(batcher, simulation, { id: asked.length, ...call }));
    if (next === 'after a promise') await Promise.resolve();
    else if (next !== 'at once') for (let passed = 0; passed < next; passed++) await turn();
  }
  await allSettled(asked);
  const attempts = asked.map(({ call }) =>
    simulation.statements.filter((statement) => statement.calls.includes(call)),
  );
  return { statements: simulation.statements, asked, attempts };
}

const guiltyOf = fc.option(fc.constantFrom('23514', '22021'), { nil: undefined, freq: 12 });
const arrival: fc.Arbitrary<Arrival> = fc.record({
  calls: fc.oneof(
    { weight: 8, arbitrary: fc.array(fc.record({ guiltyOf }), { maxLength: 6 }) },
    { weight: 2, arbitrary: fc.array(fc.record({ guiltyOf: fc.constant(undefined) }), { maxLength: 40 }) },
    { weight: 1, arbitrary: fc.integer({ min: 250, max: 270 }).map((count) => Array(count).fill({})) },
  ),
  next: fc.oneof(fc.constantFrom<Arrival['next'][]>('at once', 'after a promise'), fc.nat({ max: 4 })),
});
const behaviour: fc.Arbitrary<Behaviour> = fc.record({
  turns: fc.nat({ max: 5 }),
  fate: fc.oneof(
    { weight: 6, arbitrary: fc.constant<'well'>('well') },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Behaviour['fate'][]>('one answer less', 'one answer more', 'no answer'),
    },
    { weight: 2, arbitrary: fc.constantFrom(...failures) },
  ),
});

type Simulated = Awaited<ReturnType<typeof simulate>>;
const holdsAlways = (check: (simulated: Simulated) => void) =>
  fc.assert(
    fc.asyncProperty(
      fc.array(arrival, { minLength: 1, maxLength: 15 }),
      fc.array(behaviour, { maxLength: 20 }),
      async (arrivals, behaviours) => check(await simulate(arrivals, behaviours)),
    ),
    { numRuns: 150 },
  );

/** Whether a call was never sent, or not again. */
const isRefused = (outcome: Asked['outcome']) =>
  outcome !== undefined && 'error' in outcome && outcome.error instanceof NotSent;

const failedByData = ({ failure }: Statement) => failure?.isOfData === true;

describe('whenever calls come in, and whatever becomes of the statements,', () => {
  test('every call gets its own answer, or the error of its own statement', () =>
    holdsAlways(({ asked, attempts }) => {
      for (const [index, { call, outcome }] of asked.entries()) {
        const last = attempts[index]?.at(-1);
        if (outcome !== undefined && 'answer' in outcome) {
          expect(outcome.answer).toEqual({ to: call.id });
          expect(last).toMatchObject({ answers: last?.calls.length });
        } else if (isRefused(outcome)) {
          expect(last?.kind).toBe('many');
        } else if (last?.failure !== undefined) {
          expect(outcome?.error).toBe(last.failure.reason);
        } else {
          expect(outcome?.error).toBeInstanceOf(Error);
          expect(last?.answers).not.toBe(last?.calls.length);
        }
      }
    }));

  test('a call is sent once, and again only alone, after data failed the statement that it shared', () =>
    holdsAlways(({ asked, attempts }) => {
      for (const [index, [first, second, ...more]] of attempts.entries()) {
        expect(first).toBeDefined();
        expect(more).toEqual([]);
        if (second === undefined) {
          const isToRepeat = first?.kind === 'many' && failedByData(first);
          expect(isToRepeat).toBe(isRefused(asked[index]?.outcome));
        } else {
          expect([first?.kind, first && failedByData(first), second.kind]).toEqual(['many', true, 'one']);
        }
      }
    }));

  test('a call is refused only after another one, alone, failed by more than its data', () =>
    holdsAlways(({ asked, attempts }) => {
      for (const [index, { outcome }] of asked.entries()) {
        if (!isRefused(outcome)) continue;
        const others = attempts[index]?.[0]?.calls.map(({ id }) => attempts[id]?.[1]) ?? [];
        expect(others.some((alone) => alone?.failure?.isOfData === false)).toBe(true);
      }
    }));

  test('data fails only the calls that hold it', () =>
    holdsAlways(({ asked, attempts }) => {
      for (const [index, { call, outcome }] of asked.entries()) {
        if (isRefused(outcome)) continue;
        const isOfData = attempts[index]?.at(-1)?.failure?.isOfData === true;
        expect(isOfData && call.guiltyOf === undefined).toBe(false);
        if (isOfData) expect(outcome).toMatchObject({ error: { code: call.guiltyOf } });
        if (call.guiltyOf !== undefined) expect(outcome).toHaveProperty('error');
      }
    }));

  test('a statement is sent after all of its calls came in, in their order', () =>
    holdsAlways(({ asked, statements }) => {
      const cameInAt = new Map(asked.map(({ call, cameInAt }) => [call, cameInAt]));
      for (const { calls, sentAt } of statements) {
        for (const call of calls) expect(cameInAt.get(call)).toBeLessThan(sentAt);
        const ids = calls.map(({ id }) => id);
        expect(ids).toEqual(ids.toSorted((a, b) => a - b));
      }
    }));

  test('one statement is under way at a time; it leaves when the one before has ended', () =>
    holdsAlways(({ statements }) => {
      for (const [index, { sentAt }] of statements.entries()) {
        expect(statements.slice(0, index).filter(({ endedAt }) => endedAt > sentAt)).toEqual([]);
      }
    }));

  test('a statement answers 256 calls at the most, and a call that is alone gets the plain one', () =>
    holdsAlways(({ statements }) => {
      for (const { kind, calls } of statements) {
        if (kind === 'one') expect(calls).toHaveLength(1);
        else expect(calls.length).toBeGreaterThanOrEqual(2);
        expect(calls.length).toBeLessThanOrEqual(MOST_CALLS);
      }
    }));

  test('a call that waits leaves with the next statement that has room', () =>
    holdsAlways(({ asked, statements, attempts }) => {
      const firsts = statements.filter((statement) =>
        statement.calls.some(({ id }) => attempts[id]?.[0] === statement),
      );
      for (const [index, { cameInAt }] of asked.entries()) {
        const own = attempts[index]?.[0];
        const passedBy = firsts.filter(
          ({ sentAt, calls }) =>
            sentAt > cameInAt && sentAt < (own?.sentAt ?? 0) && calls.length < MOST_CALLS,
        );
        expect(passedBy).toEqual([]);
      }
    }));
});

/** A batcher whose statement for one call is under way, for so many turns, and calls that come in all at once then. */
async function askWhileBusy(
  calls: readonly Omit<Call, 'id'>[],
  { turns = 3, fate = 'well' }: Partial<Behaviour> = {},
  after: readonly Behaviour[] = [],
) {
  const simulation = new Simulation([{ turns, fate: 'well' }, { turns: 1, fate }, ...after]);
  const batcher = new Batcher<Call, Answer>(simulation);
  ask(batcher, simulation, { id: -1 });
  while (simulation.statements.length === 0) await turn();
  const asked = calls.map((call, id) => ask(batcher, simulation, { id, ...call }));
  return { simulation, batcher, asked };
}
const innocent = (count: number) => Array.from({ length: count }, () => ({}));
const shapes = ({ statements }: Simulation) => statements.map(({ kind, calls }) => [kind, calls.length]);

test('calls that come in while a statement is under way share the next one', async () => {
  const { simulation, batcher, asked } = await askWhileBusy(innocent(1), { turns: 20 });
  for (let id = 1; id < 10; id++) {
    await turn();
    asked.push(ask(batcher, simulation, { id }));
  }
  await allSettled(asked);
  expect(shapes(simulation)).toEqual([
    ['one', 1],
    ['many', 10],
  ]);
});

test.each(['23514', '22021'])(
  'of 50 calls with one whose data fails with %s, 49 are answered',
  async (code) => {
    const { simulation, asked } = await askWhileBusy([...innocent(20), { guiltyOf: code }, ...innocent(29)]);
    await allSettled(asked);
    expect(shapes(simulation)).toEqual([['one', 1], ['many', 50], ...Array(50).fill(['one', 1])]);
    const failed = asked.filter(({ outcome }) => outcome !== undefined && 'error' in outcome);
    expect(failed.map(({ call }) => call.id)).toEqual([20]);
  },
);

test.each(failures)('%s fails all calls of the statement, and nothing is sent again', async (fate) => {
  const { simulation, asked } = await askWhileBusy(innocent(50), { fate });
  await allSettled(asked);
  expect(shapes(simulation)).toEqual([
    ['one', 1],
    ['many', 50],
  ]);
  const reason = simulation.statements[1]?.failure?.reason;
  expect(asked.map(({ outcome }) => outcome)).toEqual(Array(50).fill({ error: reason }));
});

test.each(['one answer less', 'one answer more', 'no answer'] as const)(
  'a statement that gives %s fails all its calls: none gets an answer that may be of another',
  async (fate) => {
    const { simulation, asked } = await askWhileBusy(innocent(50), { fate });
    await allSettled(asked);
    expect(shapes(simulation)).toEqual([
      ['one', 1],
      ['many', 50],
    ]);
    expect(asked.map(({ outcome }) => outcome)).toEqual(Array(50).fill({ error: expect.any(Error) }));
  },
);

test('a statement that throws at once fails its calls, and the next ones are answered', async () => {
  let isBroken = true;
  const refuse = () => {
    if (isBroken) throw new TypeError('broken');
  };
  const batcher = new Batcher<number, number>({
    one: (call) => {
      refuse();
      return Promise.resolve(call);
    },
    many: (calls) => {
      refuse();
      return Promise.resolve(calls);
    },
  });
  const outcomes = await Promise.allSettled([1, 2, 3].map((call) => batcher.call(call, IN_TIME)));
  expect(outcomes.map(({ status }) => status)).toEqual(Array(3).fill('rejected'));
  await expect(batcher.call(4, IN_TIME)).rejects.toThrow('broken');
  isBroken = false;
  expect(await Promise.all([5, 6].map((call) => batcher.call(call, IN_TIME)))).toEqual([5, 6]);
  expect(await batcher.call(7, IN_TIME)).toBe(7);
});

test('more than 4096 calls that wait are refused at once; those that wait are answered, and later ones too', async () => {
  const { simulation, batcher, asked } = await askWhileBusy(innocent(MOST_WAITING), { turns: 50 });
  const refused = [1, 2, 3].map(() => ask(batcher, simulation, { id: -2 }));
  await Promise.resolve();
  expect(refused.map(({ outcome }) => outcome)).toEqual(Array(3).fill({ error: expect.any(NotSent) }));
  expect(shapes(simulation)).toEqual([['one', 1]]); // refused while the first is still under way

  await allSettled(asked);
  expect(asked.map(({ outcome }) => outcome)).toEqual(asked.map((_, id) => ({ answer: { to: id } })));
  const full = Array(MOST_WAITING / MOST_CALLS).fill(['many', MOST_CALLS]);
  expect(shapes(simulation)).toEqual([['one', 1], ...full]);
  expect(await batcher.call({ id: -3 }, IN_TIME)).toEqual({ to: -3 });
});

test('a call whose statement did not begin in time is refused and not sent, and those after it are answered', async () => {
  const sent: number[] = [];
  const batcher = new Batcher<number, number>({
    one: async (call) => {
      sent.push(call);
      if (call === 1) await sleep(60);
      return call;
    },
    many: async (calls) => {
      sent.push(...calls);
      return calls;
    },
  });
  const slow = batcher.call(1, IN_TIME);
  await sleep(5);
  const soon = performance.now() + 30;
  const late = Promise.allSettled([2, 3].map((call) => batcher.call(call, soon)));
  const tooLate = batcher.call(5, performance.now() - 1);
  await expect(tooLate).rejects.toThrow(NotSent);
  expect(sent).toEqual([1]); // refused at once, while the statement before it is under way
  const inTime = batcher.call(4, IN_TIME);
  expect((await late).map((outcome) => outcome.status === 'rejected' && outcome.reason)).toEqual(
    Array(2).fill(expect.any(NotSent)),
  );
  expect([await slow, await inTime]).toEqual([1, 4]);
  expect(sent).toEqual([1, 4]);
});

test('where a call that runs alone fails by more than its data, the rest are not sent', async () => {
  const { simulation, asked } = await askWhileBusy([{ guiltyOf: '23514' }, ...innocent(3)], {}, [
    { turns: 0, fate: 'well' },
    { turns: 0, fate: 'a broken connection' },
  ]);
  await allSettled(asked);
  expect(shapes(simulation)).toEqual([
    ['one', 1],
    ['many', 4],
    ['one', 1],
    ['one', 1],
  ]);
  const errors = asked.map(({ outcome }) => outcome !== undefined && 'error' in outcome && outcome.error);
  expect(errors).toEqual([
    expect.objectContaining({ code: '23514' }),
    simulation.statements.at(-1)?.failure?.reason,
    expect.any(NotSent),
    expect.any(NotSent),
  ]);
});
