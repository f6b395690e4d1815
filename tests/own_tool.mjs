// A client tool beside the gateway's server tools: this program lets the model read files in the
// current directory, and the gateway does the sums.
//
//   npm install openai
//   node examples/own_tool.mjs "What is README.md about? And what is 17 * 23?"

import { readFile, realpath } from 'node:fs/promises';
import path from 'node:path';

import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.TETHER_URL ?? 'http://127.0.0.1:8080'}/v1`,
  apiKey: process.env.TETHER_API_KEY ?? 'none',
});

/** Reads a file in the current directory. If that fails, the model gets the reason. */
async function openFile({ path: name }) {
  try {
    const file = await realpath(name);
    const fromHere = path.relative(await realpath('.'), file);
    const isOutside = path.isAbsolute(fromHere) || fromHere.split(path.sep)[0] === '..';
    return isOutside ? 'That file is outside the project.' : await readFile(file, 'utf8');
  } catch (error) {
    return error.message;
  }
}

const { data: [model] } = await client.models.list();
const runner = client.chat.completions.runTools({
  model: model.id,
  stream: true,
  messages: [{ role: 'user', content: process.argv[2] ?? 'What does README.md say?' }],
  tools: [{
    type: 'function',
    function: {
      name: 'open_file',
      description: 'Returns the contents of a file in the project.',
      parameters: {
        type: 'object',
        properties: { path: { type: 'string', description: 'For example README.md.' } },
        required: ['path'],
      },
      parse: JSON.parse,
      function: openFile,
    },
  }],
});
runner.on('content', (words) => process.stdout.write(words));
await runner.finalContent();
console.log();
