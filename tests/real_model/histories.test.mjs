// That chat templates take every history that the gateway makes of what broken clients send. A real
// server answers some; many more are only rendered, each with the templates of several families, as
// llama.cpp keeps them for its own tests.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import path from 'node:path';
import { test } from 'node:test';

import { startGateway } from '../lib/gateway.mjs';
import { random, SEED } from '../lib/random.mjs';
import { brokenHistory } from './broken_histories.mjs';
import { startLlama } from './llama.mjs';

// To answer a list takes the model seconds, to render it a millisecond.
const ANSWERED = 3;
const RENDERED = 60;
// How an upstream takes calls, and how the model makes them.
const FORMS = [['text', 'marker_json'], ['native', 'marker_json'], ['native', 'native']];
// What the templates take, and which of a history's calls.
const TAKES = {
  'CohereForAI-c4ai-command-r7b-12-2024-tool_use': 'native calls',
  'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B': 'native calls',
  // Users and models take turns, and nobody else speaks: such models need `history: text`.
  'google-gemma-2-2b-it': 'text',
  // "This model only supports single tool-calls at once!"
  'meta-llama-Llama-3.1-8B-Instruct': 'one native call at a time',
  'mistralai-Mistral-Nemo-Instruct-2407': 'native calls',
  'NousResearch-Hermes-3-Llama-3.1-8B-tool_use': 'native calls',
  'Qwen-Qwen2.5-7B-Instruct': 'native calls',
  'Qwen3.5-4B': 'native calls',
};

test(`broken histories behind llama.cpp, TEST_SEED=${SEED}`, async (all) => {
  const llama = await startLlama(all);
  for (const form of FORMS) {
    await all.test(`are answered: ${form}`, (t) => ask(t, llama.origin, form, ANSWERED));
  }
});

test(`broken histories in the templates of many models, TEST_SEED=${SEED}`, async (all) => {
  const sent = [];
  const origin = await startRecorder(all, sent);
  for (const form of FORMS) await ask(all, origin, form, RENDERED);
  assert.equal(sent.length, FORMS.length * RENDERED);

  for (const [name, takes] of Object.entries(TAKES)) {
    await all.test(`${name}: ${takes}`, async (t) => {
      const template = path.join(process.env.CHAT_TEMPLATES, `${name}.jinja`);
      const renderer = await startLlama(t, { template });
      for (const body of sent.filter((it) => isTaken(JSON.parse(it), takes))) {
        const answer = await fetch(`${renderer.origin}/apply-template`, { method: 'POST', body });
        assert.equal(answer.status, 200, `${await answer.text()}\n${body}`);
      }
    });
  }
});

/** Whether a request has only the calls that a template takes. */
function isTaken({ messages, tools }, takes) {
  const most = Math.max(...messages.map(({ tool_calls: calls }) => calls?.length ?? 0));
  return { text: !tools && most === 0, 'one native call at a time': most <= 1, 'native calls': true }[takes];
}

/** Sends so many broken histories through a gateway to a model server; each has to be answered. */
async function ask(t, origin, [history, contract], count) {
  const gateway = await startGateway(t, {
    upstreams: [{ name: 'local', kind: 'openai_chat', base_url: `${origin}/v1`, history }],
    model: { context_budget_tokens: 3500 },
    tools: { call_contract: contract },
  });
  const next = random(SEED);
  for (let list = 0; list < count; list += 1) {
    const messages = brokenHistory(next);
    const body = JSON.stringify({ model: 'local', max_tokens: 1, temperature: 0, messages });
    const answer = await fetch(`${gateway.origin}/v1/chat/completions`, { method: 'POST', body });
    const said = await answer.json();
    // A model of this size may say nothing.
    const isFine = answer.status === 200 || said.error.code === 'empty_response';
    assert.ok(isFine, `${JSON.stringify(said)}\n${JSON.stringify(messages)}`);
  }
}

/** A model server of one model that says the same each time, and keeps the requests in `sent`. */
async function startRecorder(t, sent) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"data":[{"id":"recorder"}]}');
      return;
    }
    sent.push(Buffer.concat(chunks));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('data: {"choices":[{"delta":{"content":"So."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
  });
  t.after(() => { server.closeAllConnections(); server.close(); });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${server.address().port}`;
}
