// The AI SDK with its two providers for Responses.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createOpenResponses } from '@ai-sdk/open-responses';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const SUM = call('calculate', { expression: '6*7' });

const providers = {
  openai: (baseURL) => createOpenAI({ baseURL, apiKey: 'none' }).responses('script'),
  'open-responses': (baseURL) => createOpenResponses({ name: 'tether', url: `${baseURL}/responses` })('script'),
};

const openFile = (opened) => tool({
  description: 'Opens a file.',
  inputSchema: jsonSchema({ type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }),
  execute: async ({ path }) => { opened.push(path); return 'Buy milk.'; },
});

for (const [name, provider] of Object.entries(providers)) {
  const start = async (t, script) => {
    const requests = [];
    const upstream = await startModel(t, script, requests);
    const gateway = await startGateway(t, { upstreams: [upstream] });
    return { model: provider(`${gateway.origin}/v1`), requests };
  };

  test(`${name}: text beside which a tool of ours has run`, async (t) => {
    const { model } = await start(t, [SUM, 'It is 42.']);
    const { text, finishReason, toolCalls } = await generateText({ model, prompt: 'What is 6*7?' });
    assert.deepEqual([text, finishReason], ['It is 42.', 'stop']);
    assert.ok(toolCalls.every(({ providerExecuted }) => providerExecuted), JSON.stringify(toolCalls));
  });

  test(`${name}: the same as a stream, with reasoning`, async (t) => {
    const { model } = await start(t, [`<think>Hm.</think>${SUM}`, 'It is 42.']);
    const result = streamText({ model, prompt: 'What is 6*7?' });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    assert.deepEqual([text, await result.finishReason], ['It is 42.', 'stop']);
    assert.equal(await result.reasoningText, 'Hm.');
  });

  test(`${name}: tools of the program beside ours`, async (t) => {
    const opened = [];
    const { model, requests } = await start(t, [`${SUM} ${call('open_file', { path: 'a' })}`, 'It says milk.']);
    const tools = { open_file: openFile(opened) };
    const { text } = await generateText({ model, prompt: 'Open it.', tools, stopWhen: stepCountIs(3) });
    assert.deepEqual([text, opened], ['It says milk.', ['a']]);
    assert.match(JSON.stringify(requests.at(-1).messages), /calculate` \(call_1\) returned/);
  });

  test(`${name}: a second turn knows the first`, async (t) => {
    const { model, requests } = await start(t, [`Let me see. ${SUM}`, 'It is 42.', 'Yes.']);
    const messages = [{ role: 'user', content: 'What is 6*7?' }];
    const first = await generateText({ model, messages });
    messages.push(...first.response.messages, { role: 'user', content: 'Sure?' });
    const second = await generateText({ model, messages });
    assert.equal(second.text, 'Yes.');
    const told = JSON.stringify(requests.at(-1).messages);
    assert.match(told, /It is 42\./);
    assert.match(told, /calculate` \(call_1\) returned/);
  });
}
