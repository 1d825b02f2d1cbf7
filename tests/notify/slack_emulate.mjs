// Slack by the npm package `emulate`: the argument is its module. Prints its address; it ends when its input does.
import { pathToFileURL } from 'node:url';

const { createEmulator } = await import(pathToFileURL(process.argv[2]));
const emulator = await createEmulator({
  service: 'slack', port: 0, seed: { tokens: { 'xoxb-test': { login: 'U000000001', scopes: [] } } },
});
console.log(emulator.url);
process.stdin.on('close', async () => { await emulator.close(); process.exit(0); }).resume();
