// The AI SDK with its providers for OpenAI's API and for servers like it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const SUM = call('calculate', { expression: '6*7' });

const providers = {
  openai: (baseURL) => createOpenAI({ baseURL, apiKey: 'none' }).chat('script'),
  compatible: (baseURL) => createOpenAICompatible({ name: 'tether', baseURL })('script'),
};

const openFile = (opened) => tool({
  description: 'Opens a file.',
  inputSchema: jsonSchema({ type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }),
  execute: async ({ path }) => { opened.push(path); return 'Buy milk.'; },
});

for (const [name, provider] of Object.entries(providers)) {
  const start = async (t, script, sections = {}) => {
    const upstream = await startModel(t, script);
    const gateway = await startGateway(t, { upstreams: [upstream], ...sections });
    return provider(`${gateway.origin}/v1`);
  };

  test(`${name}: text behind which a tool of ours has run`, async (t) => {
    const model = await start(t, [SUM, 'It is 42.']);
    const { text, finishReason, toolCalls } = await generateText({ model, prompt: 'What is 6*7?' });
    assert.deepEqual([text, finishReason, toolCalls], ['It is 42.', 'stop', []]);
  });

  test(`${name}: the same as a stream, in each way of showing our tools`, async (t) => {
    for (const server of ['off', 'reasoning', 'extension']) {
      const model = await start(t, [SUM, 'It is 42.'], { chat: { server_tools: server } });
      const { textStream, finishReason } = streamText({ model, prompt: 'What is 6*7?' });
      let text = '';
      for await (const piece of textStream) text += piece;
      assert.deepEqual([text, await finishReason], ['It is 42.', 'stop'], server);
    }
  });

  test(`${name}: tools of the program beside ours`, async (t) => {
    const opened = [];
    const model = await start(t, [`${SUM} ${call('open_file', { path: 'a' })}`, 'It says milk.']);
    const tools = { open_file: openFile(opened) };
    const { text } = await generateText({ model, prompt: 'Open it.', tools, stopWhen: stepCountIs(3) });
    assert.deepEqual([text, opened], ['It says milk.', ['a']]);
  });
}
