import { defineConfig } from 'vitest/config';

if (Number.parseInt(process.versions.node, 10) < 26) {
  throw new Error('Run "npm test", or "tools/node26/run npx vitest …": the tests need Node 26.');
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 20_000,
    hookTimeout: 60_000,
  },
});
