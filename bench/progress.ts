const WIDTH = 40;

/** Draws a bar where the output is a terminal; elsewhere only a line at the end. @param done from 0 to 1 */
export function showProgress(title: string, done: number): void {
  const { stdout } = process;
  if (stdout.isTTY) {
    const bar = '█'.repeat(Math.round(done * WIDTH)).padEnd(WIDTH, '░');
    stdout.write(`\r${title} ${bar} ${Math.round(done * 100)} %${done === 1 ? '\n' : ''}`);
  } else if (done === 1) {
    stdout.write(`${title}: done\n`);
  }
}
