import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { revokeKey, rotateKey } from '../src/keys/commands.ts';
import { generateKey, hashKey } from '../src/keys/format.ts';
import { findActiveKey } from '../src/keys/repository.ts';
import { newKey, type Service, startService } from './support/service.ts';
import { exchange } from './support/socket.ts';

let service: Service;
let replica: Service;
beforeAll(async () => {
  service = await startService();
  replica = await startService({ databaseUrl: service.databaseUrl });
});
afterAll(() => Promise.all([service.stop(), replica.stop()]));

const idOf = async (key: string) => (await findActiveKey(service.db, hashKey(key)))?.id ?? '';
const statusOf = async (key: string, of = service) => (await of.request('/v1/pets', { key })).status;
const withAuthorization = (authorization: string) =>
  service.request('/v1/pets', { key: null, headers: { authorization } });

const CHALLENGE = 'Bearer realm="animal-store"';
const missing = { code: 'missing_api_key', message: expect.any(String), status: 401 };
const invalid = { code: 'invalid_api_key', message: expect.any(String), status: 401 };

describe('Authorization: Bearer <API_KEY>', () => {
  test.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])(
    'takes the scheme %s in any letter case',
    async (scheme) => {
      expect((await withAuthorization(`${scheme} ${service.key}`)).status).toBe(200);
    },
  );

  test('takes one or more spaces before the key', async () => {
    expect((await withAuthorization(`Bearer    ${service.key}`)).status).toBe(200);
  });

  test('no header is 401 missing_api_key, challenged without an error', async () => {
    const { headers, json } = await service.request('/v1/pets', { key: null });
    expect(json).toEqual(missing);
    expect(headers.get('www-authenticate')).toBe(CHALLENGE);
  });

  test.each([
    '',
    'Bearer',
    'Bearer ',
    'Basic dXNlcjpwYXNz',
    'Token abc',
    'Bearer\tkey',
    'Bearer one two',
    'ast_test_x',
  ])('the header %j is malformed: 401 missing_api_key', async (authorization) => {
    const { headers, json } = await withAuthorization(authorization);
    expect(json).toEqual(missing);
    expect(headers.get('www-authenticate')).toBe(CHALLENGE);
  });

  test('the key alone, or with text after it, is malformed', async () => {
    for (const value of [
      service.key,
      `Bearer ${service.key} x`,
      `Bearer ${service.key}, Bearer ${service.key}`,
    ]) {
      expect((await withAuthorization(value)).json).toEqual(missing);
    }
  });

  test('two Authorization headers are 401, good as each may be', async () => {
    const header = `Authorization: Bearer ${service.key}\r\n`;
    const answer = await exchange(service.port, `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${header}${header}\r\n`);
    expect(JSON.parse(answer.body)).toEqual(missing);
  });

  test.each([
    ['mistyped', () => service.key.replace(/.$/, (last) => (last === '0' ? '1' : '0'))],
    ['unknown', () => generateKey('test')],
    ['of another form', () => 'secret'],
    ['not ASCII', () => 'ast_test_\u00e4'],
  ])('a key that is %s is 401 invalid_api_key, challenged with invalid_token', async (_what, key) => {
    const { headers, json } = await withAuthorization(`Bearer ${key()}`);
    expect(json).toEqual(invalid);
    expect(headers.get('www-authenticate')).toBe(`${CHALLENGE}, error="invalid_token"`);
  });

  test('a key whose checksum fails costs no query', async () => {
    const away = await startService();
    await away.db.destroy();
    const answer = await away.request('/v1/pets', { key: away.key.replace(/.$/, '!') });
    expect(answer.json).toEqual(invalid);
    await away.app.close();
  });
});

describe('revocation and expiry hold from the next request on, on every replica', () => {
  test('a revoked key is refused at once', async () => {
    for (let round = 0; round < 20; round++) {
      const key = await newKey(service.db);
      expect(await Promise.all([statusOf(key), statusOf(key, replica)])).toEqual([200, 200]);
      await revokeKey(service.db, await idOf(key), 'test');
      expect(await Promise.all([statusOf(key), statusOf(key, replica)])).toEqual([401, 401]);
    }
  });

  test('an expired key is refused', async () => {
    const key = await newKey(service.db, 1000);
    expect(await statusOf(key)).toBe(200);
    await sleep(1050);
    expect(await statusOf(key)).toBe(401);
  });

  test('rotation leaves both keys good for the overlap, and then only the new one', async () => {
    const old = await newKey(service.db);
    const { secret } = await rotateKey(service.db, await idOf(old), {
      environment: 'test',
      overlap: 1000,
      actor: 'test',
    });
    expect([await statusOf(old), await statusOf(secret)]).toEqual([200, 200]);
    await sleep(1050);
    expect([await statusOf(old), await statusOf(secret)]).toEqual([401, 200]);
  });
});

describe('the key is checked first', () => {
  test.each([
    ['a bad query', 'GET', '/v1/pets?limit=0', undefined],
    ['an unknown path', 'GET', '/v1/nothing', undefined],
    ['the base address itself', 'GET', '/v1', undefined],
    ['a method the path lacks', 'DELETE', '/v1/pets', undefined],
    ['OPTIONS', 'OPTIONS', '/v1/pets', undefined],
    ['a malformed body', 'POST', '/v1/pets', '{'],
    ['a body that is too large', 'POST', '/v1/pets', 'x'.repeat(100_000)],
    ['an unknown path of the quickstart', 'GET', '/quickstart/nothing', undefined],
    ['a body for the quickstart', 'POST', '/quickstart/messages', '{'],
  ])('%s without a key is 401 and nothing else', async (_what, method, path, body) => {
    const answer = await service.request(path, {
      method,
      key: null,
      ...(body && { body, headers: { 'content-type': 'text/plain' } }),
    });
    expect(answer.json).toEqual(missing);
    expect(answer.headers.get('allow')).toBeNull();
  });

  test('the answer comes before the body is sent', async () => {
    const answer = await exchange(
      service.port,
      'POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n',
    );
    expect(JSON.parse(answer.body)).toEqual(missing);
  });

  test('only paths outside the base addresses are answered without a key', async () => {
    for (const path of ['/v1x', '/V1/pets', '/quickstartx', '/elsewhere']) {
      expect((await service.request(path, { key: null })).json).toMatchObject({ code: 'route_not_found' });
    }
  });
});

describe('when a key was last used', () => {
  const lastUsed = async (key: string) => {
    const { last_used_at } = await service.db
      .selectFrom('api_keys')
      .select('last_used_at')
      .where('hash', '=', hashKey(key))
      .executeTakeFirstOrThrow();
    return last_used_at;
  };

  test('is written within seconds, and at most once a minute', async () => {
    const key = await newKey(service.db);
    expect(await lastUsed(key)).toBeNull();
    await statusOf(key);
    await expect.poll(() => lastUsed(key), { timeout: 5000 }).toBeInstanceOf(Date);
    const first = await lastUsed(key);
    await Promise.all([statusOf(key), statusOf(key, replica)]);
    await sleep(1500);
    expect(await lastUsed(key)).toEqual(first);
  });

  test('is written when the service stops', async () => {
    const leaving = await startService({ databaseUrl: service.databaseUrl });
    await leaving.request('/v1/pets');
    await leaving.stop();
    expect(await lastUsed(leaving.key)).toBeInstanceOf(Date);
  });

  test('is not noted for a key that was refused', async () => {
    const key = await newKey(service.db, 1);
    await sleep(20);
    await statusOf(key);
    await sleep(1500);
    expect(await lastUsed(key)).toBeNull();
  });
});
