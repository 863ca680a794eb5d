import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { createDatabase, lockTable, statementsHeldUp } from './support/database.ts';
import { type Service, type ServiceOptions, startService } from './support/service.ts';
import { RawConnection } from './support/socket.ts';

let service: Service;
const connections: RawConnection[] = [];
afterEach(async () => {
  for (const connection of connections.splice(0)) connection.destroy();
  await service.stop();
});

const start = async (options: ServiceOptions = {}) => {
  service = await startService(options);
};
const open = () => {
  const connection = new RawConnection(service.port);
  connections.push(connection);
  return connection;
};
const head = (line: string) =>
  `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\nContent-Type: application/json\r\n`;
const get = (path: string) => `${head(`GET ${path}`)}\r\n`;
const post = (body: unknown) => {
  const json = JSON.stringify(body);
  return `${head('POST /v1/pets')}Content-Length: ${json.length}\r\n\r\n${json}`;
};
const add = (name: string) => post({ name, categoryId: 1 });

describe('requests that a client sends without waiting for answers', () => {
  test('are answered in order, each after what the ones before it stored', async () => {
    await start();
    const connection = open();
    const names = Array.from({ length: 100 }, (_, index) => `pet ${index}`);
    connection.send(names.map((name) => add(name) + get('/v1/pets?limit=1')).join(''));
    const answers = await connection.answers(200);
    for (const [index, name] of names.entries()) {
      const [added, listed] = answers.slice(2 * index);
      expect(added).toMatchObject({ status: 201, body: expect.stringContaining(`"${name}"`) });
      expect(listed?.body).toBe(`[${added?.body}]`);
    }
  });

  test('hold up no other connection', async () => {
    await start();
    const unlock = await lockTable(service.databaseUrl, 'messages');
    const connection = open();
    const message = '{"message":"a"}';
    connection.send(
      `${head('POST /quickstart/messages')}Content-Length: ${message.length}\r\n\r\n${message}` +
        get('/v1/pets').repeat(500),
    );
    await expect.poll(() => statementsHeldUp(service.databaseUrl)).toBe(1);
    expect((await service.request('/v1/pets')).status).toBe(200);
    await unlock();
    expect((await connection.answers(501)).map(({ status }) => status)).toEqual([
      202,
      ...Array(500).fill(200),
    ]);
  });

  test('are not read while earlier ones wait, so that a flood costs no more than a read of the socket', async () => {
    await start();
    let begun = 0;
    service.app.server.on('request', () => {
      begun++;
    });
    const unlock = await lockTable(service.databaseUrl, 'pets');
    const connection = open();
    const request = get('/v1/pets');
    connection.send(request);
    await expect.poll(() => statementsHeldUp(service.databaseUrl)).toBe(1);
    const chunk = request.repeat(500);
    for (let sent = 0; sent < 100; sent++) connection.send(chunk);
    await sleep(500);
    expect(begun).toBeLessThan((3 * 65_536) / request.length);
    await unlock();
    expect(await connection.answers(2000)).toBeDefined(); // and then they go on
  });

  test('are cut off where ten thousand wait in all, on the connection with the most; then all is as before', async () => {
    await start();
    const unlock = await lockTable(service.databaseUrl, 'pets');
    const modest = open();
    modest.send(get('/v1/pets').repeat(20));
    const requests = get('/v1/pets').repeat(350);
    const flood = Array.from({ length: 40 }, () => {
      const connection = open();
      connection.send(requests);
      return connection;
    });
    const cut = flood.map((connection) => connection.closed().then(() => connection));
    await Promise.race(cut);
    await unlock();
    expect(await modest.answers(20)).toHaveLength(20);
    for (const connection of flood) connection.destroy();
    await Promise.all(cut);
    for (let round = 0; round < 3; round++) {
      const connection = open();
      connection.send(requests);
      expect(await connection.answers(350)).toHaveLength(350);
    }
  });

  test('and whose connection then breaks are not carried out', async () => {
    await start();
    const unlock = await lockTable(service.databaseUrl, 'pets');
    const connection = open();
    connection.send(add('first') + add('second') + add('third'));
    await expect.poll(() => statementsHeldUp(service.databaseUrl)).toBe(1);
    connection.reset();
    await sleep(100);
    await unlock();
    await expect.poll(async () => (await service.request('/v1/pets')).text).toContain('first');
    await sleep(100);
    expect((await service.request('/v1/pets')).text).not.toMatch(/second|third/);
  });
});

describe('connections beyond MAX_CONNECTIONS', () => {
  test('are answered 503 with Retry-After at once and closed; liveness is not; there is room again afterwards', async () => {
    await start({ config: { maxConnections: 2 } });
    const served = [open(), open()];
    for (const connection of served) {
      connection.send(get('/v1/pets'));
      expect(await connection.answers(1)).toMatchObject([{ status: 200 }]);
    }
    const surplus = open();
    surplus.send(get('/v1/pets'));
    const [refused] = await surplus.answers(1);
    expect(refused).toMatchObject({ status: 503, headers: { connection: 'close', 'retry-after': /^\d+$/ } });
    expect(JSON.parse(refused?.body ?? '')).toEqual({
      code: 'unavailable',
      message: expect.any(String),
      status: 503,
    });
    await surplus.closed();

    const stranger = open();
    stranger.send('GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'); // the key is checked first
    expect(await stranger.answers(1)).toMatchObject([{ status: 401, headers: { connection: 'close' } }]);
    await stranger.closed();

    const probe = open();
    probe.send(get('/health/live'));
    expect(await probe.answers(1)).toMatchObject([{ status: 200 }]);
    probe.destroy();

    served[0]?.destroy();
    await expect
      .poll(async () => {
        const next = open();
        next.send(get('/v1/pets'));
        const [answer] = await next.answers(1);
        if (answer?.status !== 200) next.destroy();
        return answer?.status;
      })
      .toBe(200);
    served[1]?.send(get('/v1/pets'));
    expect(await served[1]?.answers(2)).toHaveLength(2);
  });
});

describe('a client that', () => {
  test('does not read its answer is cut off, and others are served meanwhile', async () => {
    await start({ config: { requestTimeoutMs: 1000, requestDeadlineMs: 1000 } });
    const pets = Array.from({ length: 100 }, (_, id) => ({
      name: '🐈'.repeat(1000),
      category_id: BigInt(id),
    }));
    await service.db.insertInto('pets').values(pets).execute();
    const deaf = net.connect(service.port, '127.0.0.1').pause();
    deaf.on('error', () => {});
    deaf.write(get('/v1/pets?limit=100').repeat(100)); // 40 MB, more than any buffer between
    const open = async () =>
      new Promise<number>((resolve) => service.app.server.getConnections((_error, count) => resolve(count)));
    await sleep(500);
    expect((await service.request('/v1/pets?limit=1')).status).toBe(200);
    const withDeaf = await open();
    await expect.poll(open, { timeout: 8000 }).toBeLessThan(withDeaf);
    deaf.destroy();
  });

  test('sends its head, or its body, a byte at a time is cut off with 408 and holds up no other', async () => {
    await start({ config: { requestTimeoutMs: 1000 } });
    const slow = [get('/v1/pets'), add('slow')].map((bytes) => {
      const connection = open();
      const [now, later] = bytes.startsWith('POST') ? [bytes.slice(0, -20), bytes.slice(-20)] : ['', bytes];
      if (now) connection.send(now);
      let next = 0;
      const timer = setInterval(() => connection.send(later[next++] ?? ''), 100);
      void connection.closed().then(() => clearInterval(timer));
      return connection;
    });
    const until = performance.now() + 800;
    while (performance.now() < until) {
      const begun = performance.now();
      expect((await service.request('/v1/pets')).status).toBe(200);
      expect(performance.now() - begun).toBeLessThan(300);
    }
    for (const connection of slow) {
      const [answer] = await connection.answers(1);
      expect(answer).toMatchObject({ status: 408, body: expect.stringContaining('"request_timeout"') });
      await connection.closed();
    }
  });

  test('breaks off while its answer is on the way leaves no connection to the database in use', async () => {
    await start({ databaseUrl: await createDatabase(), config: { databasePoolSize: 2 } });
    for (let round = 0; round < 30; round++) {
      const connection = open();
      connection.send(round % 2 ? get('/v1/pets') : add('broken off'));
      if (round % 3) await sleep(1);
      if (round % 5) connection.reset();
      else connection.destroy();
    }
    const answers = await Promise.all(Array.from({ length: 20 }, () => service.request('/v1/pets')));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
  });
});
