import { run } from '../../support/command.ts';

/** Builds the service once, since all run it as production does. */
export default async function setup() {
  const { exitCode, stdout, stderr } = await run('npm', ['run', '--silent', 'build']);
  if (exitCode !== 0) throw new Error(`the service does not build: ${stdout}${stderr}`);
}
