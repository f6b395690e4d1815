// Kind `llama_completion` in front of a real llama.cpp: the template is rendered, the grammar holds a small
// model to each kind of call format, and the calls are found.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readFrames } from '../lib/frames.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { TOOLS_TEMPLATE, startLlama } from './llama.mjs';

// One for each way in which calls are written.
const FORMATS = [
  'marker_json', 'hermes', 'llama3', 'granite3', 'functools', 'apertus', 'mistral_args', 'kimi_k2', 'deepseek_v3',
  'qwen3_coder', 'minimax_m2', 'dsml_v4', 'kimi_k3', 'lfm2', 'pythonic', 'gemma4',
];

async function play(gateway, request) {
  const sampling = { temperature: 0, max_tokens: 120 };
  const body = JSON.stringify({ max_tool_loops: 2, sampling, ...request });
  const response = await gateway.begin(request.prompt, { body });
  return readFrames(Buffer.from(await response.arrayBuffer())).map(({ data }) => JSON.parse(data));
}

test('llama_completion behind llama.cpp', async (all) => {
  const llama = await startLlama(all, { template: TOOLS_TEMPLATE });
  for (const format of FORMATS) {
    await all.test(`a call in ${format}`, async (t) => {
      const gateway = await startGateway(t, {
        upstreams: [{
          name: 'llama', kind: 'llama_completion', base_url: llama.origin, call_contract: format,
          constrain: 'llama_grammar',
        }],
        model: { context_budget_tokens: 3500 },
      });
      const events = await play(gateway, {
        prompt: 'What time is it?', tool_choice: { name: 'get_current_time' },
      });
      const of = (type) => events.filter((event) => event.type === type).map(({ data }) => data);
      const [started] = of('tool_started');
      const reasons = of('feedback').map(({ reason }) => reason);
      t.diagnostic(JSON.stringify(started ?? reasons));
      assert.ok(of('tool_marker_detected').length > 0, 'a call is forced from the first byte');
      // So small a model may write an argument until its tokens run out. Nothing else can go wrong.
      if (started) {
        assert.equal(started.tool_name, 'get_current_time');
      } else {
        assert.equal(reasons[0], 'incomplete_call', JSON.stringify(events));
      }
      // Only the first call is forced: in a later one, the model may repeat the words of the feedback.
      assert.notEqual(reasons[0], 'malformed_call', JSON.stringify(events));
      assert.ok(['turn_completed', 'turn_failed'].includes(events.at(-1).type));
    });
  }
});
