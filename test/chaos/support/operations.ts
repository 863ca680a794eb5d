import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ServiceProcess, TimedAnswer } from './service-process.ts';

type Operation = (service: ServiceProcess) => Promise<TimedAnswer>;

/** A request of each kind. For `get` to be 200, an animal must have been added. */
export const operations = {
  list: (service) => service.request('/v1/pets'),
  get: (service) => service.request('/v1/pets/1'),
  create: (service) => service.request('/v1/pets', { body: { name: 'chaos', categoryId: 1 } }),
  message: (service) => service.request('/quickstart/messages', { body: { message: 'chaos' } }),
} satisfies Record<string, Operation>;

export const isSuccess = ({ status }: { status: number }) => status >= 200 && status < 300;

/** One request of each kind, at once. */
export function requestAll(
  service: ServiceProcess,
): Promise<[TimedAnswer, TimedAnswer, TimedAnswer, TimedAnswer]> {
  const { list, get, create, message } = operations;
  return Promise.all([list(service), get(service), create(service), message(service)]);
}

/** Holds an answer to be a refusal that says what to do, and what became of the request. */
export function expectRefusal({ status, headers, json }: TimedAnswer, code: unknown): void {
  expect(json).toEqual({ code, message: expect.any(String), status: 503 });
  expect(status).toBe(503);
  expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
}

/** Waits until a request of each kind, all at once, is answered well. */
export async function expectBack(service: ServiceProcess, withinMs: number): Promise<void> {
  const statuses = async () => (await requestAll(service)).map(({ status }) => status);
  await expect.poll(statuses, { timeout: withinMs, interval: 20 }).toEqual([200, 200, 201, 202]);
}

/** Repeats requests of each kind, by one client for each, until told to stop. */
export function keepRequesting(service: ServiceProcess, { pauseMs }: { pauseMs: number }) {
  const answers: TimedAnswer[] = [];
  let isOver = false;
  const clients = Object.values(operations).map(async (operation) => {
    while (!isOver) {
      answers.push(await operation(service));
      await sleep(pauseMs);
    }
  });
  return {
    /** @returns all answers */
    stop: async () => {
      isOver = true;
      await Promise.all(clients);
      return answers;
    },
  };
}
