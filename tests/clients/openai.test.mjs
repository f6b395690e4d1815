// OpenAI's own SDK for Node against `/v1/chat/completions`: what the scenarios of all clients do not show.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import OpenAI from 'openai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

/** The SDK's client of a gateway in front of a model with this script. */
async function start(t, script) {
  const upstream = await startModel(t, script);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  return new OpenAI({ baseURL: `${gateway.origin}/v1`, apiKey: 'none', maxRetries: 0 });
}

const ask = (content, more = {}) => ({ model: 'script', messages: [{ role: 'user', content }], ...more });

test('a stream has one id, one finish reason, and the usage last', async (t) => {
  const client = await start(t, [call('calculate', { expression: '6*7' }), 'It is 42.']);
  const request = ask('What is 6*7?', { stream: true, stream_options: { include_usage: true } });
  const chunks = [];
  for await (const chunk of await client.chat.completions.create(request)) chunks.push(chunk);
  assert.equal(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size, 1);
  const reasons = chunks.flatMap(({ choices }) => choices.map((it) => it.finish_reason)).filter(Boolean);
  assert.deepEqual(reasons, ['stop']);
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.ok(Number.isInteger(chunks.at(-1).usage.total_tokens));
});

test('errors are the SDK\'s errors', async (t) => {
  const client = await start(t, []);
  await assert.rejects(client.chat.completions.create({ ...ask('Hi.'), model: 'gpt-9' }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...ask('Hi.'), n: 2 }), OpenAI.BadRequestError);
});

test('models are listed', async (t) => {
  const client = await start(t, []);
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ['script', 'script:no-tools']);
});
