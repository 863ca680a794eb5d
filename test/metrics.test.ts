import net from 'node:net';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../src/config.ts';
import { type Server, startServer } from '../src/server.ts';
import { connect, createDatabase, lockTable, statementsHeldUp } from './support/database.ts';
import { newKey, type RequestOptions, send, startService } from './support/service.ts';
import { exchange, listenOnFreePort, RawConnection } from './support/socket.ts';

interface Running {
  server: Server;
  metricsAddress: string;
  key: string;
}

async function startOnFreePorts(): Promise<Running> {
  const config = loadConfig({ DATABASE_URL: await createDatabase(), PORT: '1', KEY_ENVIRONMENT: 'test' });
  const lines: string[] = [];
  const logger = pino(
    { base: null },
    new Writable({
      write: (line: Buffer, _encoding, done) => {
        lines.push(line.toString());
        done();
      },
    }),
  );
  const server = await startServer({ ...config, port: 0, opsPort: 0 }, logger);
  const metricsAddress = /"msg":"Metrics at ([^"]+)"/.exec(lines.join(''))?.[1] ?? '';
  const db = connect(config.databaseUrl);
  const key = await newKey(db);
  await db.destroy();
  return { server, metricsAddress, key };
}

let running: Running;
beforeAll(async () => {
  running = await startOnFreePorts();
});
afterAll(() => running.server.stop());

const request = (path: string, options: RequestOptions = {}) =>
  send(`${running.server.address}${path}`, { key: running.key, ...options });
const scrape = async () => (await send(running.metricsAddress)).text;

/** How many requests were measured, by operation and status. */
async function counts(): Promise<Map<string, number>> {
  const samples = (await scrape()).matchAll(
    /^http_request_duration_seconds_count\{operation="(\w+)",status="(\d+)"\} (\d+)$/gm,
  );
  return new Map(
    [...samples].map(([, operation, status, count]) => [`${operation} ${status}`, Number(count)]),
  );
}

/** What a few requests add to the counts. An answer is counted when it is out, which may be after it has come in. */
async function expectCounted(act: () => Promise<unknown>, expected: Record<string, number>): Promise<void> {
  const before = await counts();
  await act();
  const added = async () =>
    Object.fromEntries(
      [...(await counts())]
        .map(([name, count]): [string, number] => [name, count - (before.get(name) ?? 0)])
        .filter(([, count]) => count > 0),
    );
  await expect.poll(added).toEqual(expected);
}

describe('GET /metrics on the operations port', () => {
  test("answers in Prometheus' text format", async () => {
    await request('/v1/pets');
    const { status, headers, text } = await send(running.metricsAddress);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    const sample = /^[a-z_:][\w:]*(\{\w+="[^"\\]*"(,\w+="[^"\\]*")*\})? (-?[\d.e+-]+|NaN|[+-]?Inf)$/i;
    for (const line of text.trimEnd().split('\n')) {
      if (line !== '') expect(line).toMatch(line.startsWith('#') ? /^# (HELP|TYPE) \w+ ./ : sample);
    }
    expect(text.endsWith('\n')).toBe(true);
  });

  test('needs no key, and listens where PORT does not', () => {
    expect(new URL(running.metricsAddress).pathname).toBe('/metrics');
    expect(new URL(running.metricsAddress).port).not.toBe(new URL(running.server.address).port);
  });

  test('has the figures of the process', async () => {
    const text = await scrape();
    for (const name of [
      'process_cpu_seconds_total',
      'process_resident_memory_bytes',
      'process_start_time_seconds',
      'nodejs_eventloop_lag_seconds',
    ]) {
      expect(text).toMatch(new RegExp(`^# TYPE ${name} \\w+\\n${name}(\\{[^}]*\\})? [\\d.e+-]+$`, 'm'));
    }
  });

  test('counts the answers of each operation by status', async () => {
    await expectCounted(
      async () => {
        await request('/v1/pets');
        await request('/v1/pets?limit=5');
        await request('/v1/pets?limit=0');
        await request('/v1/pets', { key: null });
        await request('/v1/pets', { body: { name: 'a', categoryId: 1 } });
        await request('/v1/pets', { body: '{' });
        await request('/v1/pets/1');
        await request('/v1/pets/2');
        await request('/v1/pets/x');
        await request('/quickstart/messages', { body: { message: 'm' } });
      },
      {
        'listPets 200': 2,
        'listPets 400': 1,
        'listPets 401': 1,
        'createPet 201': 1,
        'createPet 400': 1,
        'getPet 200': 1,
        'getPet 404': 2,
        'createMessage 202': 1,
      },
    );
  });

  test('counts what is no operation as other', async () => {
    await expectCounted(
      async () => {
        await request('/nowhere');
        await request('/v1/nowhere/7');
        await request('/v1/nowhere', { key: null });
        await request('/v1/pets', { method: 'DELETE' });
      },
      { 'other 404': 2, 'other 401': 1, 'other 405': 1 },
    );
  });

  test('tells how long the answers took, in seconds', async () => {
    const text = await scrape();
    const samples = [...text.matchAll(/^http_request_duration_seconds_(\w+)\{(.*)\} (\S+)$/gm)];
    const sums = samples.filter(([, kind]) => kind === 'sum').map(([, , , value]) => Number(value));
    expect(sums.length).toBeGreaterThan(5);
    expect(Math.max(...sums)).toBeLessThan(5);
    expect(Math.min(...sums)).toBeGreaterThan(0);
    const buckets = samples.filter(
      ([, kind, labels]) => kind === 'bucket' && labels?.includes('"listPets",status="200"'),
    );
    const values = buckets.map(([, , , value]) => Number(value));
    expect(values).toEqual(values.toSorted((a, b) => a - b));
    expect(buckets.at(-1)?.[2] ?? buckets[0]?.[2]).toContain('le=');
  });

  test('has no label with a path, an id, a key or anything else that a client sends', async () => {
    await request('/v1/pets/987654321?secret=sesame', { headers: { 'x-request-id': 'sesame' } });
    await request('/sesame/987654321', { method: 'PUT' });
    await request('/v1/pets?status=sesame');
    const text = await scrape();
    const ofRequests = text.split('\n').filter((line) => line.startsWith('http_'));
    const labels = new Set(
      ofRequests.flatMap((line) => [...line.matchAll(/(\w+)="([^"]*)"/g)].map(([, name]) => name)),
    );
    expect(labels).toEqual(new Set(['le', 'operation', 'status']));
    const operations = new Set([...text.matchAll(/operation="([^"]*)"/g)].map(([, name]) => name));
    const known = ['listPets', 'createPet', 'getPet', 'createMessage', 'other'];
    expect([...operations].filter((name) => !known.includes(name ?? ''))).toEqual([]);
    for (const secret of ['sesame', '987654321', running.key, running.key.slice(0, 13), '/v1']) {
      expect(text).not.toContain(secret);
    }
  });
});

test('GET /metrics on the public port is 404, with a key and without', async () => {
  for (const key of [running.key, null]) {
    const { status, json } = await request('/metrics', { key });
    expect([status, json]).toEqual([
      404,
      { code: 'route_not_found', message: expect.any(String), status: 404 },
    ]);
  }
});

test('the operations port has nothing but the metrics', async () => {
  for (const path of ['/', '/v1/pets', '/health/live', '/openapi.json']) {
    const url = new URL(path, running.metricsAddress).href;
    expect((await send(url, { key: running.key })).status).toBe(404);
  }
});

describe('stop() ends both ports', () => {
  /** Whether something ends within a few seconds, far less than any time-out of a connection. */
  const soon = (ending: Promise<unknown>) =>
    Promise.race([
      ending.then(() => true),
      new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 3000)),
    ]);
  const portOf = ({ metricsAddress }: Running) => Number(new URL(metricsAddress).port);

  test('so that they can be listened on again', async () => {
    const other = await startOnFreePorts();
    const ports = [portOf(other), Number(new URL(other.server.address).port)];
    expect(await soon(other.server.stop())).toBe(true);
    for (const port of ports)
      await expect(exchange(port, 'GET / HTTP/1.1\r\n\r\n')).rejects.toThrow('no answer');
  });

  test.each([
    ['is kept alive after a scrape', 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['has sent nothing', ''],
    ['has sent half of a request', 'GET /metrics HTTP/1.1\r\nHo'],
  ])('though a connection to the operations port %s', async (_what, bytes) => {
    const other = await startOnFreePorts();
    const socket = net.connect(portOf(other), '127.0.0.1').on('error', () => {});
    await new Promise((resolve) => socket.once('connect', resolve));
    if (bytes !== '') socket.write(bytes);
    if (bytes.endsWith('\r\n\r\n')) await new Promise((resolve) => socket.once('data', resolve));
    else await new Promise((resolve) => setTimeout(resolve, 50));
    const stopped = other.server.stop();
    const isSoon = await soon(stopped);
    socket.destroy();
    await stopped;
    expect(isSoon).toBe(true);
  });
});

test('where PORT is taken, the operations port is free again', async () => {
  const { server: taken, port } = await listenOnFreePort();
  const { server: free, port: opsPort } = await listenOnFreePort();
  await new Promise((resolve) => free.close(resolve));
  const config = loadConfig({
    DATABASE_URL: await createDatabase(),
    PORT: `${port}`,
    OPS_PORT: `${opsPort}`,
  });
  await expect(startServer(config, pino({ level: 'silent' }))).rejects.toMatchObject({
    code: 'EADDRINUSE',
    portSetting: 'PORT',
  });
  await expect(exchange(opsPort, 'GET /metrics HTTP/1.1\r\n\r\n')).rejects.toThrow('no answer');
  taken.close();
});

test('a request whose client leaves before its answer is logged and counted, with status 499', async () => {
  const service = await startService();
  const unlock = await lockTable(service.databaseUrl, 'pets');
  const connection = new RawConnection(service.port);
  connection.send(
    `GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: left\r\nAuthorization: Bearer ${service.key}\r\n\r\n`,
  );
  await expect.poll(() => statementsHeldUp(service.databaseUrl)).toBe(1);
  connection.reset();
  const lines = () => service.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request');
  await expect.poll(lines).toMatchObject([{ requestId: 'left', route: '/v1/pets', status: 499 }]);
  await unlock();
  await service.stop();
});
