// OpenAI's own SDK for Node against `/v1/chat/completions`: our tools run behind the answer, and
// the program's own are run by the program.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import OpenAI from 'openai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const SUM = call('calculate', { expression: '6*7' });

/** A gateway in front of a model with this script, the SDK's client, and what the model is sent. */
async function start(t, script, sections = {}) {
  const requests = [];
  const upstream = await startModel(t, script, requests);
  const gateway = await startGateway(t, { upstreams: [upstream], ...sections });
  const client = new OpenAI({ baseURL: `${gateway.origin}/v1`, apiKey: 'none', maxRetries: 0 });
  return { client, requests };
}

const ask = (content, more = {}) => ({ model: 'script', messages: [{ role: 'user', content }], ...more });

/** A tool of the program, as `runTools` takes it. */
const openFile = (opened) => ({
  type: 'function',
  function: {
    name: 'open_file',
    description: 'Opens a file.',
    parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    parse: JSON.parse,
    function: ({ path }) => { opened.push(path); return 'Buy milk.'; },
  },
});

test('create returns one message', async (t) => {
  const { client } = await start(t, [`Let me see. ${SUM}`, 'It is 42.']);
  const answer = await client.chat.completions.create(ask('What is 6*7?'));
  assert.equal(answer.choices[0].message.content, 'Let me see. It is 42.');
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.equal(answer.choices[0].message.tool_calls, undefined);
});

test('a stream has one id, one finish reason, and the usage last', async (t) => {
  const { client } = await start(t, [SUM, 'It is 42.']);
  const request = ask('What is 6*7?', { stream: true, stream_options: { include_usage: true } });
  const chunks = [];
  for await (const chunk of await client.chat.completions.create(request)) chunks.push(chunk);
  assert.equal(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size, 1);
  const reasons = chunks.flatMap(({ choices }) => choices.map((it) => it.finish_reason)).filter(Boolean);
  assert.deepEqual(reasons, ['stop']);
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.ok(Number.isInteger(chunks.at(-1).usage.total_tokens));
});

test('the stream helper collects the answer', async (t) => {
  const { client } = await start(t, [SUM, 'It is 42.']);
  const stream = client.chat.completions.stream(ask('What is 6*7?'));
  assert.equal(await stream.finalContent(), 'It is 42.');
});

for (const server of ['off', 'reasoning', 'extension']) {
  test(`every reader takes chat.server_tools: ${server}`, async (t) => {
    const { client } = await start(t, [SUM, 'It is 42.'], { chat: { server_tools: server } });
    const stream = client.chat.completions.stream(ask('What is 6*7?'));
    assert.equal(await stream.finalContent(), 'It is 42.');
  });
}

test('runTools runs the program\'s tools, and ours run beside them', async (t) => {
  const opened = [];
  const { client, requests } = await start(t, [`${SUM} ${call('open_file', { path: 'a' })}`, 'It says milk.']);
  const runner = client.chat.completions.runTools(ask('Open it.', { tools: [openFile(opened)] }));
  assert.equal(await runner.finalContent(), 'It says milk.');
  assert.deepEqual(opened, ['a']);
  const told = JSON.stringify(requests.at(-1).messages);
  assert.match(told, /calculate` \(call_1\) returned/);
  assert.match(told, /Buy milk\./);
});

test('the same with a stream', async (t) => {
  const opened = [];
  const { client } = await start(t, [call('open_file', { path: 'a' }), 'It says milk.']);
  const runner = client.chat.completions.runTools(ask('Open it.', { stream: true, tools: [openFile(opened)] }));
  assert.equal(await runner.finalContent(), 'It says milk.');
  assert.deepEqual(opened, ['a']);
});

test('a call that breaks its schema never reaches the program', async (t) => {
  const opened = [];
  const script = [call('open_file', { path: 7 }), call('open_file', { path: 'a' }), 'It says milk.'];
  const { client } = await start(t, script);
  const runner = client.chat.completions.runTools(ask('Open it.', { tools: [openFile(opened)] }));
  assert.equal(await runner.finalContent(), 'It says milk.');
  assert.deepEqual(opened, ['a']);
});

test('a conversation goes on with what our tools found', async (t) => {
  const { client, requests } = await start(t, [SUM, 'It is 42.', 'Quite sure.']);
  const first = ask('What is 6*7?');
  const answer = await client.chat.completions.create(first);
  const messages = [...first.messages, answer.choices[0].message, { role: 'user', content: 'Sure?' }];
  await client.chat.completions.create({ model: 'script', messages });
  assert.match(JSON.stringify(requests.at(-1).messages), /calculate` \(call_1\) returned/);
});

test('errors are the SDK\'s errors', async (t) => {
  const { client } = await start(t, []);
  await assert.rejects(client.chat.completions.create({ ...ask('Hi.'), model: 'gpt-9' }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...ask('Hi.'), n: 2 }), OpenAI.BadRequestError);
});

test('models are listed', async (t) => {
  const { client } = await start(t, []);
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ['script', 'script:no-tools']);
});
