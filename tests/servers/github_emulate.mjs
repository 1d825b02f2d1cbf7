// GitHub's REST API by the npm package `emulate`: arguments are its module and a seed file. Prints its address; a
// line "reset" goes back to the seed; it ends when its input does, so it never outlives whoever started it.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { createEmulator } = await import(pathToFileURL(process.argv[2]));
const seed = JSON.parse(readFileSync(process.argv[3]));
const emulator = await createEmulator({ service: 'github', port: 0, seed });
console.log(emulator.url);
createInterface({ input: process.stdin })
  .on('line', async () => { await emulator.reset(); console.log('reset'); })
  .on('close', async () => { await emulator.close(); process.exit(0); });
