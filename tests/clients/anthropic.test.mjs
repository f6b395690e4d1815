// Programs for Anthropic's API against `/v1/messages`: the SDK for Python, the AI SDK's provider,
// and a suite that checks each message against the specification.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { createAnthropic } from '@ai-sdk/anthropic';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const run = promisify(execFile);
const PYTHON_CLIENT = fileURLToPath(new URL('anthropic_client.py', import.meta.url));

const SUM = call('calculate', { expression: '6*7' });
const OPEN = call('open_file', { path: 'a' });
const THOUGHT = '<think>Six sevens.</think>';

/** A gateway in front of a model with this script, and what the model is sent. */
async function start(t, script, server_tools = 'off', sections = {}) {
  const requests = [];
  const upstream = await startModel(t, script, requests);
  const gateway = await startGateway(t, { upstreams: [upstream], messages: { server_tools }, ...sections });
  return { gateway, requests };
}

const text = (words) => ({ type: 'text', text: words });
const thinking = { type: 'thinking', thinking: 'Six sevens.' };
const used = { type: 'tool_use', name: 'open_file', input: { path: 'a' } };
const LIFE = ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop'];

async function python(gateway) {
  const { stdout } = await run('python3', [PYTHON_CLIENT, gateway.origin]);
  return JSON.parse(stdout);
}

test('the SDK for Python takes every way of asking', async (t) => {
  const script = [
    'It is 42.', 'It is 42.', `${THOUGHT}It is 42.`,
    `I will. ${call('open_file', { path: 7 })}`, `${OPEN} ${call('open_file', { path: 'b' })}`, 'Both are open.',
    'It is 42.',
  ];
  const { gateway, requests } = await start(t, script);
  const { usage, counted, ...printed } = await python(gateway);
  assert.ok(Number.isInteger(usage) && counted > 0);
  assert.deepEqual(printed, {
    create: [[text('It is 42.')], 'end_turn'],
    iterated: LIFE,
    stream: ['It is 42.', [[thinking, text('It is 42.')], 'end_turn']],
    call: [[text('I will.  '), used, { ...used, input: { path: 'b' } }], 'tool_use'],
    answer: [[text('Both are open.')], 'end_turn'],
    beta: [[text('It is 42.')], 'end_turn'],
    not_found: 'not_found_error',
    bad_request: 'invalid_request_error',
  });
  const told = JSON.stringify(requests.at(-2).messages);
  assert.match(told, /It is a\./);
  assert.match(told, /It is b\./);
  assert.doesNotMatch(told, /calculate/, 'our tools are off');
});

test('the SDK for Python takes our tools as blocks', async (t) => {
  const answered = [SUM, 'It is 42.'];
  const script = [...answered, ...answered, ...answered, OPEN, 'It is open.', ...answered];
  const { gateway } = await start(t, script, 'mcp_tool_use');
  const { create, iterated, stream, beta } = await python(gateway);
  const [called, returned, said] = create[0];
  assert.deepEqual(called, { type: 'mcp_tool_use', name: 'calculate', server_name: 'tether', input: { expression: '6*7' } });
  assert.deepEqual([returned.type, returned.is_error], ['mcp_tool_result', false]);
  assert.match(returned.content[0].text, /"42"/);
  assert.deepEqual(said, text('It is 42.'));
  assert.equal(iterated.at(-1), 'message_stop');
  assert.equal(stream[0], 'It is 42.');
  assert.deepEqual(beta, create);
});

const anthropic = ({ origin }) => createAnthropic({ baseURL: `${origin}/v1`, apiKey: 'none' })('claude-opus-9');

test('the AI SDK runs its own tools', async (t) => {
  const opened = [];
  const open_file = tool({
    description: 'Opens a file.',
    inputSchema: jsonSchema({ type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }),
    execute: async ({ path }) => { opened.push(path); return 'Buy milk.'; },
  });
  const { gateway, requests } = await start(t, [`I will. ${OPEN}`, 'It says milk.', `I will. ${OPEN}`, 'It says milk.']);
  const asked = { model: anthropic(gateway), prompt: 'Open it.', tools: { open_file }, stopWhen: stepCountIs(3) };
  const whole = await generateText(asked);
  assert.deepEqual([whole.text, whole.finishReason], ['It says milk.', 'stop']);
  const streamed = streamText(asked);
  assert.equal(await streamed.text, 'It says milk.');
  assert.deepEqual(opened, ['a', 'a']);
  assert.match(JSON.stringify(requests.at(-1).messages), /Buy milk\./);
});

test('the AI SDK takes ours for a provider\'s, and does not run them', async (t) => {
  const { gateway } = await start(t, [`Let me see. ${SUM}`, 'It is 42.'], 'mcp_tool_use');
  const { fullStream, finishReason } = streamText({ model: anthropic(gateway), prompt: 'What is 6*7?' });
  const parts = [];
  for await (const part of fullStream) parts.push(part);
  assert.deepEqual(parts.filter(({ type }) => type === 'error'), []);
  const called = parts.find(({ type }) => type === 'tool-call');
  assert.deepEqual([called.toolName, called.providerExecuted], ['calculate', true]);
  assert.ok(parts.some(({ type, providerExecuted }) => type === 'tool-result' && providerExecuted));
  assert.equal(parts.filter(({ type }) => type === 'text-delta').map((part) => part.text).join(''), 'Let me see. It is 42.');
  assert.equal(await finishReason, 'stop');
});

test('the AI SDK shows reasoning that it has asked for', async (t) => {
  const { gateway } = await start(t, [`${THOUGHT}It is 42.`, `${THOUGHT}It is 42.`]);
  const asked = { model: anthropic(gateway), prompt: 'What is 6*7?' };
  const providerOptions = { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } };
  const thought = streamText({ ...asked, providerOptions });
  assert.equal(await thought.text, 'It is 42.');
  assert.equal(await thought.reasoningText, 'Six sevens.');
  assert.equal(await streamText(asked).reasoningText, undefined);
});

test('pings do no harm', async (t) => {
  const gateway = await startGateway(t, { tokensPerSec: 50, stream: { keep_alive_sec: 0.01 } });
  const { text: said } = streamText({ model: anthropic(gateway), prompt: 'Hello?' });
  assert.ok((await said).length > 5);
});

test('a model server that dies is an error', async (t) => {
  const gateway = await startGateway(t, { upstreams: [{ name: 'away', base_url: 'http://127.0.0.1:9/v1', model: 'm' }] });
  const errors = [];
  const onError = ({ error }) => errors.push(error);
  await streamText({ model: anthropic(gateway), prompt: 'Hi.', maxRetries: 0, onError }).consumeStream();
  assert.equal(errors.length, 1);
  assert.doesNotMatch(String(errors[0]), /type validation/i);
});

test('llm-comply finds nothing wrong', async (t) => {
  const weather = call('get_weather', { location: 'San Francisco' });
  // In the order of the suite.
  const script = ['Hello, my friend.', 'Hello.', 'Alice', weather, '1 2 3 4 5', 'Word.', 'A picture.', `${THOUGHT}It is 555.`];
  const { gateway } = await start(t, script);
  const asked = ['-u', `${gateway.origin}/v1`, '-k', 'none', '-m', 'claude-sonnet-4', '--format', 'anthropic', '--json'];
  const { stdout } = await run('python3', ['-c', 'from llm_comply.cli import main; main()', 'run', ...asked]);
  const { results } = JSON.parse(stdout);
  assert.equal(results.length, 9);
  for (const { id, status, errors, warnings } of results) {
    assert.deepEqual([id, status, errors ?? [], warnings ?? []], [id, 'passed', [], []]);
  }
});
