// That calls which a real server reads itself are run, and that their results go back in a
// form that it takes: a session of three turns, over both of its APIs.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readFrames } from '../lib/frames.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { startLlama, TOOLS_TEMPLATE } from './llama.mjs';

const QUESTIONS = ['What is 6*7?', 'What is 12*4?', 'What is 100-1?'];

test('calls that llama.cpp reads', async (all) => {
  const llama = await startLlama(all, { template: TOOLS_TEMPLATE });

  for (const kind of ['openai_chat', 'openai_responses']) {
    await all.test(`a session over ${kind}`, async (t) => {
      const gateway = await startGateway(t, {
        upstreams: [{ name: 'llama', kind, base_url: `${llama.origin}/v1` }],
        model: { context_budget_tokens: 3500 },
        tools: { call_contract: 'native' },
      });
      let run = 0;
      for (const prompt of QUESTIONS) {
        const frames = await turn(gateway, prompt);
        const { event, data } = frames.at(-1);
        t.diagnostic(frames.map((frame) => frame.event).filter((name) => name !== 'text_delta').join(' '));
        // What so small a model makes of a result is its own affair; that nothing is
        // refused, and that each call has an end, is ours.
        assert.ok(event === 'turn_completed' || JSON.parse(data).data.code === 'empty_response', data);
        const count = (name) => frames.filter((frame) => frame.event === name).length;
        assert.equal(count('tool_started'), count('tool_completed'));
        run += count('tool_completed');
      }
      assert.ok(run > 0, 'a call was run');
    });
  }
});

async function turn(gateway, prompt) {
  const sampling = { temperature: 0, max_tokens: 80 };
  const body = JSON.stringify({ prompt, session_id: 'sums', max_tool_loops: 2, sampling });
  const response = await gateway.begin(prompt, { body });
  return readFrames(Buffer.from(await response.arrayBuffer()));
}
