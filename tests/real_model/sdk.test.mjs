// OpenAI's SDK for Node, and a real model behind the gateway: a stream in which a tool of ours runs,
// over Chat Completions and over Responses.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import OpenAI from 'openai';

import { startGateway } from '../lib/gateway.mjs';
import { startLlama } from './llama.mjs';

const PROMPT = 'What is 6*7?';
// Which tool so small a model would choose is not the point here.
const NAME = 'calculate';
const ANSWER_TOKENS_MAX = 80;

test('the SDK and llama.cpp', async (all) => {
  const llama = await startLlama(all);
  const gateway = await startGateway(all, {
    upstreams: [{
      name: 'llama', kind: 'openai_chat', base_url: `${llama.origin}/v1`,
      constrain: 'llama_grammar', history: 'text',
    }],
    model: { context_budget_tokens: 3500 },
    feedback: { temperature_step: 0 },
    limits: { max_tool_loops: 2 },
  });
  const client = new OpenAI({ baseURL: `${gateway.origin}/v1`, apiKey: 'none', maxRetries: 0 });

  await all.test('Chat Completions', async (t) => {
    const stream = client.chat.completions.stream({
      model: 'llama',
      messages: [{ role: 'user', content: PROMPT }],
      temperature: 0,
      max_tokens: ANSWER_TOKENS_MAX,
      tool_choice: { type: 'function', function: { name: NAME } },
      stream_options: { include_usage: true },
      tether: { server_tools: 'extension' },
    });
    const events = [];
    let pieces = 0;
    stream.on('chunk', ({ tether }) => { if (tether) events.push(tether); });
    stream.on('content', () => { pieces += 1; });
    const { choices: [{ message, finish_reason }], usage } = await stream.finalChatCompletion();
    t.diagnostic(JSON.stringify([message.content, finish_reason, usage]));
    const { data: ended } = events.find(({ type }) => type === 'tool_completed');
    assert.deepEqual([ended.tool_name, ended.tool_result.success], [NAME, true]);
    assert.equal(message.tool_calls, undefined);
    assert.ok(['stop', 'length'].includes(finish_reason), finish_reason);
    assert.ok(pieces > 1, `the answer came in ${pieces} pieces`);
    assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  });

  await all.test('Responses', async (t) => {
    const stream = client.responses.stream({
      model: 'llama',
      input: PROMPT,
      temperature: 0,
      max_output_tokens: ANSWER_TOKENS_MAX,
      tool_choice: { type: 'function', name: NAME },
    });
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => { text += delta; });
    const { output, output_text, status, usage } = await stream.finalResponse();
    t.diagnostic(JSON.stringify([output_text, status, usage]));
    const called = output.find(({ type }) => type === 'mcp_call');
    assert.deepEqual([called.name, called.status], [NAME, 'completed']);
    assert.ok(['completed', 'incomplete'].includes(status), status);
    assert.notEqual(text.trim(), '');
    assert.equal(output_text, text);
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0);
  });
});
