// The AI SDK with its providers for all APIs.

import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenResponses } from '@ai-sdk/open-responses';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

import { OPEN_FILE } from './play.mjs';

const apiKey = 'none';

/** A conversation in which `generate` asks, and the SDK runs the program's tools. */
const conversation = (provider, generate) => ({ origin, offers }) => {
  const messages = [];
  return async (prompt, heard, abortSignal) => {
    messages.push({ role: 'user', content: prompt });
    const open_file = tool({
      description: OPEN_FILE.description,
      inputSchema: jsonSchema(OPEN_FILE.schema),
      execute: ({ path }) => heard.open(path),
    });
    const { finishReason, response } = await generate({
      model: provider(`${origin}/v1`),
      messages,
      tools: offers ? { open_file } : {},
      stopWhen: stepCountIs(5),
      maxRetries: 0,
      providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
      abortSignal,
    }, (part) => hear(heard, part));
    const [end, { messages: answers }] = await Promise.all([finishReason, response]);
    heard.end = end;
    messages.push(...answers);
  };
};

/** A part of a stream or of a whole answer. */
function hear(heard, { type, text = '', error, toolName, output, providerExecuted }) {
  if (type === 'error') throw error;
  if (type.startsWith('text')) heard.text += text;
  if (type.startsWith('reasoning')) heard.reasoning += text;
  if (providerExecuted && ['tool-result', 'tool-error'].includes(type)) {
    // OpenAI's provider has the error of a call in its result.
    const isGood = type === 'tool-result' && !output.error;
    heard.ours.push([toolName.replace(/^mcp\./, ''), isGood]);
  }
}

async function generate(request, onPart) {
  const result = await generateText(request);
  result.steps.flatMap(({ content }) => content).forEach(onPart);
  return result;
}

async function stream(request, onPart) {
  // What goes wrong is a part of the stream as well.
  const result = streamText({ ...request, onError: () => {} });
  for await (const part of result.fullStream) onPart(part);
  return result;
}

const client = (name, api, shows, provider, sections) => ({
  name: `\`ai\` with \`@ai-sdk/${name}\``,
  api,
  sections,
  shows: { end: true, ...shows },
  error: /^(APICallError|StreamProviderError)$/,
  ways: {
    generateText: { start: conversation(provider, generate) },
    streamText: { start: conversation(provider, stream), streams: true },
  },
});

export default [
  client('openai', 'Chat Completions', { reasoning: false, ours: false },
    (baseURL) => createOpenAI({ baseURL, apiKey }).chat('script')),
  client('openai-compatible', 'Chat Completions', { reasoning: true, ours: false },
    (baseURL) => createOpenAICompatible({ name: 'tether', baseURL })('script')),
  client('openai', 'Responses', { reasoning: true, ours: true },
    (baseURL) => createOpenAI({ baseURL, apiKey }).responses('script')),
  client('open-responses', 'Responses', { reasoning: true, ours: false },
    (baseURL) => createOpenResponses({ name: 'tether', url: `${baseURL}/responses` })('script')),
  client('anthropic', 'Messages', { reasoning: true, ours: true },
    (baseURL) => createAnthropic({ baseURL, apiKey })('script'), { messages: { server_tools: 'mcp_tool_use' } }),
];
