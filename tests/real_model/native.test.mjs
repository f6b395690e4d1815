// That a real llama.cpp server, whose chat template has the last word on a conversation,
// takes native calls of every outcome, and that a turn with native calls comes to an end.
// The requests are those that a unit test of conversation/render holds the gateway to.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { readFrames } from '../lib/frames.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { startLlama } from './llama.mjs';

const REQUESTS = new URL('../data/upstream/native_requests.json', import.meta.url);

test('native calls behind llama.cpp', async (all) => {
  const llama = await startLlama(all);

  const requests = JSON.parse(await readFile(REQUESTS));
  for (const [path, request] of Object.entries(requests)) {
    await all.test(`${path} takes calls of every outcome`, async () => {
      const answer = await fetch(llama.origin + path, { method: 'POST', body: JSON.stringify(request) });
      const said = await answer.text();
      assert.equal(answer.status, 200, said);
      assert.doesNotMatch(said, /^(event|data): *(error|\{"error")/m);
    });
  }

  for (const kind of ['openai_chat', 'openai_responses']) {
    await all.test(`a turn over ${kind} comes to an end`, async (t) => {
      const gateway = await startGateway(t, {
        upstreams: [{ name: 'llama', kind, base_url: `${llama.origin}/v1` }],
        model: { context_budget_tokens: 3500 },
        tools: { call_contract: 'native' },
      });
      const sampling = { temperature: 0, max_tokens: 120 };
      const body = JSON.stringify({ prompt: 'What is 6*7?', max_tool_loops: 2, sampling });
      const response = await gateway.begin('What is 6*7?', { body });
      const frames = readFrames(Buffer.from(await response.arrayBuffer()));
      const { event, data } = frames.at(-1);
      t.diagnostic(frames.map((frame) => frame.event).filter((name) => name !== 'text_delta').join(' '));
      t.diagnostic(data);
      // What so small a model makes of it is its own affair; that it is never refused is ours.
      assert.ok(event === 'turn_completed' || JSON.parse(data).data.code === 'empty_response', data);
    });
  }
});
