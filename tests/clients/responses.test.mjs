// OpenAI's own SDK for Node against `/v1/responses`: what the scenarios of all clients do not show.

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

const ask = (input, more = {}) => ({ model: 'script', input, ...more });
const types = ({ output }) => output.map(({ type }) => type);

test('create returns items, and the words of all messages', async (t) => {
  const { client } = await start(t, [`Let me see. ${SUM}`, 'It is 42.']);
  const response = await client.responses.create(ask('What is 6*7?'));
  assert.equal(response.output_text, 'Let me see. It is 42.');
  assert.deepEqual(types(response), ['message', 'mcp_call', 'message']);
  assert.equal(JSON.parse(response.output[1].output).result, '42');
  assert.deepEqual(await client.responses.retrieve(response.id).then(({ output }) => output), response.output);
});

for (const server of ['mcp_call', 'function_call', 'hidden']) {
  test(`the stream helper takes responses.server_tools: ${server}`, async (t) => {
    const script = ['<think>Hm.</think>Let me see. ', SUM].join('');
    const { client } = await start(t, [script, 'It is 42.'], { responses: { server_tools: server } });
    const stream = client.responses.stream(ask('What is 6*7?'));
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => { text += delta; });
    const response = await stream.finalResponse();
    assert.equal(text, response.output_text);
    assert.equal(response.output[0].summary[0].text, 'Hm.');
    const ours = { mcp_call: ['mcp_call'], function_call: ['function_call', 'function_call_output'], hidden: [] };
    assert.deepEqual(types(response), ['reasoning', 'message', ...ours[server], 'message']);
  });
}

test('a conversation that the program keeps', async (t) => {
  const { client, requests } = await start(t, [SUM, 'It is 42.', 'Yes.']);
  const input = [{ role: 'user', content: 'What is 6*7?' }];
  const first = await client.responses.create(ask(input, { store: false }));
  input.push(...first.output, { role: 'user', content: 'Sure?' });
  const second = await client.responses.create(ask(input, { store: false }));
  assert.equal(second.output_text, 'Yes.');
  assert.match(JSON.stringify(requests.at(-1).messages), /calculate` \(call_1\) returned/);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
});

test('in the background: polled, and joined after an event', async (t) => {
  const { client } = await start(t, [SUM, 'It is 42.']);
  const queued = await client.responses.create(ask('What is 6*7?', { background: true }));
  assert.equal(queued.status, 'queued');
  const joined = await client.responses.retrieve(queued.id, { stream: true, starting_after: 1 });
  const events = [];
  for await (const event of joined) events.push(event);
  assert.equal(events[0].sequence_number, 2);
  assert.equal(events.at(-1).type, 'response.completed');
  const done = await client.responses.retrieve(queued.id);
  assert.deepEqual(done, { ...events.at(-1).response, output_text: done.output_text });
  const helper = client.responses.stream({ response_id: queued.id, starting_after: 4 });
  assert.equal((await helper.finalResponse()).output_text, 'It is 42.');
  assert.equal((await client.responses.cancel(queued.id)).status, 'completed');
});

test('input items are listed, and a response is deleted', async (t) => {
  const { client } = await start(t, ['Hello.']);
  const response = await client.responses.create(ask('Hi.'));
  const items = [];
  for await (const item of client.responses.inputItems.list(response.id)) items.push(item);
  assert.equal(items[0].content[0].text, 'Hi.');
  await client.responses.delete(response.id);
  await assert.rejects(client.responses.retrieve(response.id), OpenAI.NotFoundError);
});

test('errors are the SDK\'s own', async (t) => {
  const { client } = await start(t, ['Hello.']);
  await assert.rejects(client.responses.create(ask('Hi.', { model: 'gpt-9' })), OpenAI.NotFoundError);
  await assert.rejects(client.responses.create({ model: 'script' }), OpenAI.BadRequestError);
});

test('a model server that is not there is an error in a stream', async (t) => {
  const gateway = await startGateway(t, {
    upstreams: [{ name: 'script', base_url: 'http://127.0.0.1:9/v1', model: 'm' }],
  });
  const client = new OpenAI({ baseURL: `${gateway.origin}/v1`, apiKey: 'none', maxRetries: 0 });
  const read = async () => {
    for await (const event of await client.responses.create(ask('Hi.', { stream: true }))) void event;
  };
  await assert.rejects(read, OpenAI.APIError);
});
