// A real server without vision: it refuses images, and the turn goes on without them.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readFrames } from '../lib/frames.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { EVERYTHING } from '../lib/mcp_servers.mjs';
import { startLlama } from './llama.mjs';

test('a model without vision answers after a tool returned an image', async (t) => {
  const llama = await startLlama(t);
  const name = 'everything__get-tiny-image';
  const gateway = await startGateway(t, {
    upstreams: [{
      name: 'llama', kind: 'openai_chat', base_url: `${llama.origin}/v1`,
      constrain: 'llama_grammar', history: 'text',
    }],
    model: { context_budget_tokens: 3500, images: true },
    feedback: { temperature_step: 0 },
    tools: {
      builtin: [],
      mcp: [{ name: 'everything', command: [process.execPath, EVERYTHING, 'stdio'], allow: ['get-tiny-image'], required: true }],
    },
  });
  const prompt = 'Show me the tiny image.';
  const sampling = { temperature: 0, seed: 1, max_tokens: 60 };
  const body = JSON.stringify({ prompt, sampling, max_tool_loops: 1, tool_choice: { name } });
  const response = await gateway.begin(prompt, { body });
  const frames = readFrames(Buffer.from(await response.arrayBuffer()));
  t.diagnostic(frames.map(({ event }) => event).filter((event) => event !== 'text_delta').join(' '));
  const results = frames.filter(({ event }) => event === 'tool_completed').map(({ data }) => JSON.parse(data).data);
  assert.ok(results.some(({ tool_result: result }) => result.data.artifacts?.[0].mime_type === 'image/png'));
  assert.equal(frames.at(-1).event, 'turn_completed');
  assert.match(gateway.log, /the model server takes no images/);
});
