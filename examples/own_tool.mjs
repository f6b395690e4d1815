// A tool of this program beside those of the gateway: the model can read files below the current
// directory, and the gateway does the sums.
//
//   node examples/own_tool.mjs "How many lines does README.md have, times 12?"

import { readFile, realpath } from 'node:fs/promises';
import path from 'node:path';

import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.TETHER_URL ?? 'http://127.0.0.1:8080'}/v1`,
  apiKey: process.env.TETHER_API_KEY ?? 'none',
});

/** Reads a file, but none outside of the current directory. */
async function openFile({ path: name }) {
  const file = await realpath(name);
  if (path.relative(process.cwd(), file).startsWith('..')) throw new Error('that file is not ours');
  return readFile(file, 'utf8');
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
      description: 'Returns what a file of the project contains.',
      parameters: {
        type: 'object',
        properties: { path: { type: 'string', description: 'Such as README.md.' } },
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
