import { defineConfig } from 'vitest/config';

if (Number.parseInt(process.versions.node, 10) < 26) {
  throw new Error('Run "npm run test:chaos": the tests need Node 26.');
}

export default defineConfig({
  test: {
    include: ['test/chaos/**/*.chaos.ts'],
    globalSetup: 'test/chaos/support/global-setup.ts',
    fileParallelism: false, // each has the machine, and its own PostgreSQL, to itself
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
