import { setTimeout as sleep } from 'node:timers/promises';
import { Memory } from './memory.ts';
import { brokenRule, difference, type Sent } from './oracle.ts';
import { Random } from './random.ts';
import { anyRequest, type Request, twins } from './requests.ts';
import type { Target } from './target.ts';
import { HIDDEN_ID, lenient, mutated, oversized, raw, smuggled } from './wild.ts';
import { type Answer, Connection } from './wire.ts';

/** Something that the service did wrong, with all that is needed to see it again. */
export interface Finding {
  readonly kind: string;
  /** The rule that it broke, or how the answer differs from the right one. */
  readonly problem: string;
  /** The bytes that were sent on the connection in question, as Latin-1. */
  readonly sent: string;
  readonly answer: Answer | undefined;
}

export interface FuzzOptions {
  readonly seed: number;
  /** How many requests to send, or a few more. */
  readonly requests: number;
  /** Ends the run before that. */
  readonly signal?: AbortSignal;
}

export interface FuzzResult {
  readonly requests: number;
  readonly findings: readonly Finding[];
  /** How many requests there were of each kind. */
  readonly kinds: ReadonlyMap<string, number>;
  /** How many answers there were of each status. */
  readonly statuses: ReadonlyMap<number, number>;
}

const CLIENTS = 16;
const MAX_FINDINGS = 5;
/** What separates the seeds of the clients. */
const SEED_STEP = 0x9e3779b1;
/** An operation, and what is refused before its body has arrived. */
const SPOILED_PATHS = ['/quickstart/messages', '/quickstart/%zz'];
/** For the service to be anywhere in its work when the client leaves. */
const MAX_PATIENCE_MS = 3;
const CONNECT = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n';
const NO_ANSWER = 'there is no answer';

/**
 * Sends generated requests, several clients at a time, and judges each answer. What a client sends follows from the
 * seed and from the answers that it got, so a seed gives the same run but for the ids.
 */
export async function fuzz(target: Target, { seed, requests, signal }: FuzzOptions): Promise<FuzzResult> {
  const findings: Finding[] = [];
  const kinds = new Map<string, number>();
  const statuses = new Map<number, number>();
  const result = { requests: 0, findings, kinds, statuses };
  const journal: Journal = {
    requested: (kind, count) => {
      result.requests += count;
      kinds.set(kind, (kinds.get(kind) ?? 0) + count);
    },
    answered: ({ status }) => statuses.set(status, (statuses.get(status) ?? 0) + 1),
    found: (finding) => findings.push(finding),
  };
  const isOver = () => findings.length >= MAX_FINDINGS || signal?.aborted === true;
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, index) => {
      const client = new Client(target, new Random(seed + index * SEED_STEP), journal);
      const share = Math.ceil(requests / CLIENTS);
      while (client.requests < share && !isOver()) await client.act();
      client.leave();
    }),
  );
  return result;
}

/** Whether the service answers a plain request for animals. */
export async function listsPets({ port, keys: [key] }: Target): Promise<boolean> {
  const connection = await Connection.open(port);
  const head = `GET /v1/pets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  await connection.send([Buffer.from(head)]);
  const answer = await connection.next(false);
  connection.reset();
  return answer?.status === 200;
}

interface Journal {
  requested(kind: string, count: number): void;
  answered(answer: Answer): void;
  found(finding: Finding): void;
}

/** Sends one thing after the other, and learns from the answers. */
class Client {
  readonly #target: Target;
  readonly #random: Random;
  readonly #journal: Journal;
  readonly #memory = new Memory();
  /** The connection that is kept from one request to the next. */
  #kept: Connection | undefined;
  requests = 0;

  constructor(target: Target, random: Random, journal: Journal) {
    this.#target = target;
    this.#random = random;
    this.#journal = journal;
  }

  async act(): Promise<void> {
    const random = this.#random;
    const target = this.#target;
    const request = () => anyRequest(random, this.#memory, target);
    const bytes = () => Buffer.concat(this.#pipeline(2).map((request) => request.bytes));
    const key = random.pick(target.keys);
    await random.weighted<() => Promise<void>>([
      [60, () => this.#converse([request()])],
      [4, () => this.#converse(this.#pipeline(6))],
      [2, () => this.#converse(twins(random, this.#memory, target))],
      [4, () => this.#converse([request()], { isHalfClosed: true })],
      [3, () => this.#spoil(this.#pipeline(3), smuggled(random, key, random.pick(SPOILED_PATHS)))],
      [18, () => this.#provoke('mutated bytes', mutated(random, bytes()))],
      [4, () => this.#provoke('raw bytes', raw(random))],
      [3, () => this.#provoke('a hidden request', smuggled(random, key), isRefusedAsWhole)],
      [1, () => this.#provoke('a head that is too large', oversized(random, key), isTooLarge)],
      [2, () => this.#provoke('not quite HTTP', lenient(random, key))],
      [2, () => this.#breakOff(bytes())],
      [1, () => this.#breakOff(Buffer.concat([bytes(), Buffer.from(CONNECT)]))],
      [1, () => this.#breakOff(Buffer.concat([bytes(), smuggled(random, key)]))],
    ])();
  }

  leave(): void {
    this.#kept?.reset();
  }

  /** Requests to be sent at once; only the last of them may end the connection. */
  #pipeline(maximum: number): Request[] {
    const requests: Request[] = [];
    do requests.push(anyRequest(this.#random, this.#memory, this.#target));
    while (requests.at(-1)?.mayClose === false && requests.length < this.#random.int(1, maximum));
    return requests;
  }

  /** Sends well-formed requests, and holds each answer to what was predicted. */
  async #converse(requests: readonly Request[], { isHalfClosed = false } = {}): Promise<void> {
    const bytes = this.#announce(requests);
    await this.#watch(kindOf(requests), bytes, async () => {
      const connection = isHalfClosed ? await this.#open() : await this.#keptConnection();
      await connection.send(requests.at(-1)?.mayClose ? [bytes] : this.#pieces(bytes));
      if (isHalfClosed) connection.end();
      const closes = await this.#hear(connection, requests, isHalfClosed);
      if (closes || isHalfClosed) await endOf(connection);
    });
  }

  /** Sends well-formed requests and then something else: those are answered first, then it is refused. */
  async #spoil(pipeline: readonly Request[], spoiler: Buffer): Promise<void> {
    const requests = pipeline.filter(({ mayClose }) => !mayClose);
    const bytes = Buffer.concat([this.#announce(requests), spoiler]);
    await this.#watch(`${kindOf(requests)}, and then what is no HTTP`, bytes, async () => {
      const connection = await this.#open();
      await connection.send([bytes]);
      await this.#hear(connection, requests, false);
      const refusal = await connection.next(false);
      if (refusal?.status !== 400) throw new Problem('what is no HTTP was not refused', refusal);
      this.#check(refusal, guess(spoiler, { isWholeAndFirst: false }));
      await endOf(connection);
      connection.end();
    });
  }

  /** Takes the answers to well-formed requests. @returns whether the last one closes the connection */
  async #hear(connection: Connection, requests: readonly Request[], mayAllClose: boolean): Promise<boolean> {
    let closes = false;
    for (const { prediction, sent, learn, mayClose } of requests) {
      const answer = await connection.next(sent.isHead === true);
      if (answer === undefined) throw new Problem(NO_ANSWER);
      this.#check(answer, sent);
      const problem = difference(answer, prediction);
      if (problem !== undefined) throw new Problem(problem, answer);
      closes = answer.headers.get('connection') === 'close';
      if (closes && !mayClose && !mayAllClose) throw new Problem('the connection is closed', answer);
      learn?.(answer);
    }
    return closes;
  }

  /** Sends whatever bytes, and holds the answers to what is true of every answer. */
  async #provoke(
    kind: string,
    bytes: Buffer,
    judge?: (answers: readonly Answer[]) => string | undefined,
  ): Promise<void> {
    this.#count(kind, 1);
    await this.#watch(kind, bytes, async () => {
      const connection = await this.#open();
      const pieces = this.#pieces(bytes);
      await connection.send(pieces);
      connection.end();
      const answers = await connection.rest();
      for (const [index, answer] of answers.entries()) {
        this.#check(answer, guess(bytes, { isWholeAndFirst: index === 0 && pieces.length === 1 }));
      }
      // What closed the connection may have been in the first piece; empty lines are waited behind for more.
      const mustAnswer = pieces.length === 1 && !/^[\r\n]*$/.test(bytes.toString('latin1'));
      if (answers.length === 0 && mustAnswer) throw new Problem(NO_ANSWER);
      const problem = judge?.(answers);
      if (problem !== undefined) throw new Problem(problem, answers[0]);
    });
  }

  /** Leaves in the middle of requests, or before their answers. */
  async #breakOff(bytes: Buffer): Promise<void> {
    const kind = 'a broken connection';
    this.#count(kind, 1);
    const sent = this.#random.chance(50) ? bytes : bytes.subarray(0, this.#random.int(0, bytes.length));
    await this.#watch(kind, sent, async () => {
      const connection = await this.#open();
      await connection.send(this.#pieces(sent));
      await sleep(this.#random.int(0, MAX_PATIENCE_MS));
      connection.reset();
    });
  }

  /** Holds an answer to what is true of every answer. */
  #check(answer: Answer, sent: Sent): void {
    this.#journal.answered(answer);
    const problem = brokenRule(answer, sent);
    if (problem !== undefined) throw new Problem(problem, answer);
  }

  /** Runs an exchange. After a problem nothing more is sent on its connection. */
  async #watch(kind: string, bytes: Buffer, exchange: () => Promise<void>): Promise<void> {
    try {
      await exchange();
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      const answer = error instanceof Problem ? error.answer : undefined;
      this.#journal.found({ kind, problem, sent: bytes.toString('latin1'), answer });
      this.#kept?.reset();
      this.#kept = undefined;
    }
  }

  /** Counts requests. @returns their bytes */
  #announce(requests: readonly Request[]): Buffer {
    for (const { kind } of requests) this.#count(kind, 1);
    return Buffer.concat(requests.map(({ bytes }) => bytes));
  }

  #count(kind: string, count: number): void {
    this.requests += count;
    this.#journal.requested(kind, count);
  }

  #open(): Promise<Connection> {
    return Connection.open(this.#target.port);
  }

  async #keptConnection(): Promise<Connection> {
    if (this.#kept === undefined || !this.#kept.isOpen) this.#kept = await this.#open();
    return this.#kept;
  }

  /** TCP may deliver bytes in any pieces. */
  #pieces(bytes: Buffer): Buffer[] {
    if (!this.#random.chance(8)) return [bytes];
    const cuts = Array.from({ length: this.#random.int(1, 4) }, () => this.#random.int(0, bytes.length));
    const places = [0, ...cuts.sort((one, other) => one - other), bytes.length];
    return places.slice(1).map((place, index) => bytes.subarray(places[index], place));
  }
}

/** Why an exchange is a finding. */
class Problem extends Error {
  readonly answer: Answer | undefined;

  constructor(message: string, answer?: Answer) {
    super(message);
    this.answer = answer;
  }
}

async function endOf(connection: Connection): Promise<void> {
  const surplus = await connection.next(false);
  if (surplus !== undefined) throw new Problem('there is one answer too many', surplus);
}

function kindOf(requests: readonly Request[]): string {
  return requests.map(({ kind }) => kind).join(', ');
}

/** What can be known of bytes that are perhaps no request, and of the first request in them if they came in one piece. */
function guess(bytes: Buffer, { isWholeAndFirst }: { isWholeAndFirst: boolean }): Sent {
  const text = bytes.toString('latin1');
  const mayBeHead = text.includes('HEAD') ? undefined : false;
  return {
    requestId: undefined,
    mayContinue: /expect/i.test(text),
    isHead: isWholeAndFirst && /^HEAD .*\r\n\r\n/s.test(text) ? true : mayBeHead,
    mayBeConnect: text.includes('CONNECT'),
  };
}

function isRefusedAsWhole(answers: readonly Answer[]): string | undefined {
  if (answers.some(({ headers }) => headers.get('x-request-id') === HIDDEN_ID))
    return 'the hidden request was answered';
  return answers.length === 1 && answers[0]?.status === 400
    ? undefined
    : 'the request was not refused as a whole';
}

function isTooLarge(answers: readonly Answer[]): string | undefined {
  return answers.length === 1 && answers[0]?.status === 431 ? undefined : 'the head is not too large';
}
