// A real model and a real MCP server: the model reads a file through server-filesystem, and
// answers with what is in it.

import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { readFrames, textOf } from '../lib/frames.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { FILESYSTEM } from '../lib/mcp_servers.mjs';
import { startLlama } from './llama.mjs';

test('the model reads a file through an MCP server and answers', async (t) => {
  // The model copies the path, and is too small to do so with any letters. So it is always the same.
  const directory = path.join(tmpdir(), 'tether-notes');
  await mkdir(directory, { recursive: true });
  t.after(() => rm(directory, { recursive: true }));
  const file = path.join(directory, 'note.txt');
  await writeFile(file, 'The secret code is 4711.');
  const llama = await startLlama(t);
  const gateway = await startGateway(t, {
    upstreams: [{
      name: 'llama', kind: 'openai_chat', base_url: `${llama.origin}/v1`,
      constrain: 'llama_grammar', history: 'text',
    }],
    model: { context_budget_tokens: 3500 },
    feedback: { temperature_step: 0 },
    tools: {
      builtin: [],
      mcp: [{ name: 'files', command: [process.execPath, FILESYSTEM, directory], allow: ['read_text_file'], policy: { '*': { mutates: false } }, required: true }],
    },
  });
  const prompt = `What is the secret code in the file ${file}?`;
  const sampling = { temperature: 0, seed: 1, max_tokens: 120 };
  const body = JSON.stringify({ prompt, sampling, max_tool_loops: 2 });
  const response = await gateway.begin(prompt, { body });
  const frames = readFrames(Buffer.from(await response.arrayBuffer()));
  t.diagnostic(frames.map(({ event }) => event).filter((name) => name !== 'text_delta').join(' '));
  t.diagnostic(textOf(frames));
  const results = frames.filter(({ event }) => event === 'tool_completed').map(({ data }) => JSON.parse(data).data);
  assert.ok(results.some(({ tool_name: name, tool_result: result }) => name === 'files__read_text_file' && /4711/.test(JSON.stringify(result.data))));
  assert.equal(frames.at(-1).event, 'turn_completed');
  assert.match(textOf(frames), /4711/);
});
