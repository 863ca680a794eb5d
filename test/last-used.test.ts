import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { LastUsedRecorder } from '../src/keys/last-used.ts';

describe('the times of last use are written in batches, at most once a minute a key', () => {
  let writes: string[][] = [];
  let database: 'there' | 'away' = 'there';
  let recorder: LastUsedRecorder;

  beforeEach(() => {
    vi.useFakeTimers();
    writes = [];
    database = 'there';
    const write = async (keyIds: string[]) => {
      if (database === 'away') throw new Error('away');
      writes.push(keyIds);
    };
    recorder = new LastUsedRecorder(write, pino({ level: 'silent' }));
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('all uses within a second are one write, of each key once', async () => {
    for (const keyId of ['a', 'b', 'a', 'c', 'b']) recorder.note(keyId);
    await vi.advanceTimersByTimeAsync(1000);
    expect(writes).toEqual([['a', 'b', 'c']]);
  });

  test('a key that is used all the time is written once a minute', async () => {
    for (let second = 0; second < 180; second++) {
      recorder.note('busy');
      await vi.advanceTimersByTimeAsync(1000);
    }
    expect(writes).toEqual([['busy'], ['busy'], ['busy']]);
  });

  test('a write that failed is made good by the next use', async () => {
    database = 'away';
    recorder.note('a');
    await vi.advanceTimersByTimeAsync(1000);
    database = 'there';
    recorder.note('a');
    await vi.advanceTimersByTimeAsync(1000);
    expect(writes).toEqual([['a']]);
  });

  test('an idle service writes nothing', async () => {
    await vi.advanceTimersByTimeAsync(600_000);
    expect(writes).toEqual([]);
  });
});
