// Programs for Anthropic's API against `/v1/messages`: what the scenarios of all clients do not show.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { createAnthropic } from '@ai-sdk/anthropic';
import { streamText } from 'ai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const PYTHON_CLIENT = fileURLToPath(new URL('anthropic_client.py', import.meta.url));
const LIFE = ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop'];

test('the SDK for Python: a required call, tokens, and errors', async (t) => {
  const requests = [];
  const script = ['It is 42.', 'I will not.', `I will. ${call('open_file', { path: 'a' })}`];
  const upstream = await startModel(t, script, requests);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  const { stdout } = await promisify(execFile)('python3', [PYTHON_CLIENT, gateway.origin]);
  const { counted, ...printed } = JSON.parse(stdout);
  assert.ok(counted > 0);
  assert.deepEqual(printed, {
    events: LIFE,
    call: ['tool_use', 'text', 'tool_use'],
    models: [['script', 'script', 'model', true], ['script:no-tools', 'script:no-tools', 'model', true]],
    not_found: 'not_found_error',
    bad_request: 'invalid_request_error',
  });
  assert.doesNotMatch(JSON.stringify(requests), /calculate/, 'our tools are off');
});

const provider = (origin) => createAnthropic({ baseURL: `${origin}/v1`, apiKey: 'none' })('claude-opus-9');

test('the AI SDK gets no reasoning that it has not asked for', async (t) => {
  const upstream = await startModel(t, ['<think>Six sevens.</think>It is 42.']);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  const { text, reasoningText } = streamText({ model: provider(gateway.origin), prompt: 'What is 6*7?' });
  assert.deepEqual(await Promise.all([text, reasoningText]), ['It is 42.', undefined]);
});

test('a model server that is not there is an error', async (t) => {
  const gateway = await startGateway(t, { upstreams: [{ name: 'away', base_url: 'http://127.0.0.1:9/v1', model: 'm' }] });
  const errors = [];
  const onError = ({ error }) => errors.push(error);
  await streamText({ model: provider(gateway.origin), prompt: 'Hi.', maxRetries: 0, onError }).consumeStream();
  assert.equal(errors.length, 1);
  assert.doesNotMatch(String(errors[0]), /type validation/i);
});
