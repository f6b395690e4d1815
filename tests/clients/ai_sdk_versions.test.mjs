// The readers of the AI SDK's earlier versions over the streams of `/api/v1/ai-sdk/chat`. Their
// schemas are strict: a part with a field that they do not know is an error.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as ai7 from 'ai';
import * as ai5 from 'ai-5';
import * as ai5Oldest from 'ai-5-oldest';
import * as ai6 from 'ai-6';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const CHAT = '/api/v1/ai-sdk/chat';
const SUM = call('calculate', { expression: '6*7' });
const tools = { open_file: { description: 'Opens.', parameters: { type: 'object' } } };

const versions = {
  '5.0.92, the oldest that knows finishReason': ai5Oldest,
  'the last of 5': ai5,
  6: ai6,
  7: ai7,
};

/** The bytes of the answer to a question, in front of a model with this script. */
async function record(t, script, { stops = false } = {}) {
  const upstream = await startModel(t, script);
  const gateway = await startGateway(t, { upstreams: [upstream], tools: { demo: true } });
  const messages = [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'Hi.' }] }];
  const reply = await fetch(gateway.origin + CHAT, {
    method: 'POST',
    body: JSON.stringify({ id: 'c', messages, tools }),
  });
  let stream = '';
  for await (const piece of reply.body.pipeThrough(new TextDecoderStream())) {
    if (stops && !stream.includes('text-delta') && piece.includes('text-delta')) {
      await fetch(`${gateway.origin}${CHAT}/c/stream`, { method: 'DELETE' });
    }
    stream += piece;
  }
  return stream;
}

/** What a version makes of a stream: the message, and the errors. */
async function read({ DefaultChatTransport, readUIMessageStream }, recorded) {
  const transport = new DefaultChatTransport({
    fetch: async () => new Response(recorded, { headers: { 'content-type': 'text/event-stream' } }),
  });
  const stream = await transport.sendMessages({ chatId: 'c', messages: [], trigger: 'submit-message' });
  const errors = [];
  const onError = (error) => errors.push(error.message);
  let last;
  for await (const message of readUIMessageStream({ stream, onError, terminateOnError: true })) last = message;
  return { last, errors };
}

for (const [name, script, kinds, options] of [
  ['reasoning and text', ['<think>Hm.</think>Hello.'], ['step-start', 'reasoning', 'text']],
  ['tools of ours', [`Let me see. ${SUM}`, 'So.'], ['step-start', 'text', 'dynamic-tool', 'step-start', 'text']],
  ['a failing tool', [call('calculate', { expression: '1/0' }), 'No.'], ['step-start', 'dynamic-tool', 'step-start', 'text']],
  ['a tool of the page', [call('open_file', {})], ['step-start', 'tool-open_file']],
  ['a question', [call('lookup_contacts', { name: 'John' })], ['step-start', 'dynamic-tool', 'step-start', 'text', 'data-clarification']],
  ['a token limit', [{ say: 'Well', finish: 'length' }], ['step-start', 'text']],
  ['a stop', [{ say: 'Well', holds: new Promise(() => {}) }], ['step-start', 'text'], { stops: true }],
]) {
  test(`${name}, read by each version`, async (t) => {
    const recorded = await record(t, script, options);
    for (const [version, ai] of Object.entries(versions)) {
      const { last, errors } = await read(ai, recorded);
      assert.deepEqual(errors, [], version);
      assert.deepEqual(last.parts.map(({ type }) => type), kinds, version);
    }
  });
}

test('a failure is an error in each version', async (t) => {
  const recorded = await record(t, [{ say: 'Well', dies: true }]);
  for (const [version, ai] of Object.entries(versions)) {
    await assert.rejects(read(ai, recorded), /The model failed/, version);
  }
});
