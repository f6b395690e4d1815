// OpenAI's SDK for Node.

import OpenAI from 'openai';

import { OPEN_FILE } from './play.mjs';

const connect = (origin) => new OpenAI({ baseURL: `${origin}/v1`, apiKey: 'none', maxRetries: 0 });
const { schema: parameters, ...described } = OPEN_FILE;

// Chat Completions

const chatTool = { type: 'function', function: { ...described, parameters } };

/** A conversation in which `complete` asks once, and the program runs its tools by hand. */
const byHand = (complete) => ({ origin, offers }) => {
  const client = connect(origin);
  const messages = [];
  return async (prompt, heard, signal) => {
    messages.push({ role: 'user', content: prompt });
    for (;;) {
      const request = { model: 'script', messages, ...(offers && { tools: [chatTool] }) };
      const { message, finish_reason } = await complete(client, request, heard, signal);
      messages.push(message);
      heard.end = finish_reason;
      for (const { id, function: { arguments: args } } of message.tool_calls ?? []) {
        messages.push({ role: 'tool', tool_call_id: id, content: heard.open(JSON.parse(args).path) });
      }
      if (finish_reason !== 'tool_calls') return;
    }
  };
};

async function create(client, request, heard, signal) {
  const { choices: [choice] } = await client.chat.completions.create(request, { signal });
  heard.text += choice.message.content ?? '';
  heard.reasoning += choice.message.reasoning_content ?? '';
  return choice;
}

function hearDelta(heard, { content, reasoning_content }) {
  heard.text += content ?? '';
  heard.reasoning += reasoning_content ?? '';
}

async function stream(client, request, heard, signal) {
  const tool_calls = [];
  let finish_reason;
  for await (const { choices } of await client.chat.completions.create({ ...request, stream: true }, { signal })) {
    for (const { delta, finish_reason: reason } of choices) {
      hearDelta(heard, delta);
      for (const { index, id, function: part } of delta.tool_calls ?? []) {
        tool_calls[index] ??= { id, type: 'function', function: { name: part.name, arguments: '' } };
        tool_calls[index].function.arguments += part.arguments;
      }
      finish_reason ??= reason;
    }
  }
  return { message: { role: 'assistant', content: heard.text, ...(tool_calls.length > 0 && { tool_calls }) }, finish_reason };
}

async function streamHelper(client, request, heard, signal) {
  const helper = client.chat.completions.stream(request, { signal });
  helper.on('chunk', ({ choices }) => choices.forEach(({ delta }) => hearDelta(heard, delta)));
  const { choices: [choice] } = await helper.finalChatCompletion();
  return choice;
}

const CUT_OFF = { 'the token limit': /^LengthFinishReasonError$/ };

/** The SDK runs the program's tools and asks again. */
const runTools = (more) => ({ origin, offers }) => {
  const client = connect(origin);
  let messages = [];
  return async (prompt, heard, signal) => {
    messages.push({ role: 'user', content: prompt });
    const open = { ...chatTool.function, parse: JSON.parse, function: ({ path }) => heard.open(path) };
    const tools = offers ? [{ type: 'function', function: open }] : [];
    const runner = client.chat.completions.runTools({ model: 'script', messages, tools, ...more }, { signal });
    const hear = ({ choices: [{ delta, message }] }) => hearDelta(heard, delta ?? message);
    runner.on(more.stream ? 'chunk' : 'chatCompletion', hear);
    heard.end = (await runner.finalChatCompletion()).choices[0].finish_reason;
    messages = runner.messages;
  };
};

// Responses

const responsesTool = { type: 'function', ...described, parameters, strict: null };
const ENDS = { completed: 'stop', incomplete: 'length' };

/** A chain of responses. */
const chain = (respond) => ({ origin, offers }) => {
  const client = connect(origin);
  let previous_response_id;
  return async (prompt, heard, signal) => {
    let input = [{ role: 'user', content: prompt }];
    while (input.length > 0) {
      const request = { model: 'script', input, previous_response_id, ...(offers && { tools: [responsesTool] }) };
      const response = await respond(client, request, heard, signal);
      previous_response_id = response.id;
      input = [];
      for (const item of response.output) {
        if (item.type === 'mcp_call') heard.ours.push([item.name, item.status === 'completed']);
        if (item.type === 'function_call') {
          const output = heard.open(JSON.parse(item.arguments).path);
          input.push({ type: 'function_call_output', call_id: item.call_id, output });
        }
      }
      heard.end = ENDS[response.status];
    }
  };
};

async function createResponse(client, request, heard, signal) {
  const response = await client.responses.create(request, { signal });
  heard.text += response.output_text;
  heard.reasoning = response.output.filter(({ type }) => type === 'reasoning').map(({ summary }) => summary[0].text).join('');
  return response;
}

function hearEvent(heard, { type, delta }) {
  if (type === 'response.output_text.delta') heard.text += delta;
  if (type === 'response.reasoning_summary_text.delta') heard.reasoning += delta;
}

async function streamResponse(client, request, heard, signal) {
  let response;
  for await (const event of await client.responses.create({ ...request, stream: true }, { signal })) {
    hearEvent(heard, event);
    response = event.response ?? response;
  }
  return response;
}

async function responseHelper(client, request, heard, signal) {
  const helper = client.responses.stream(request, { signal });
  helper.on('event', (event) => hearEvent(heard, event));
  return helper.finalResponse();
}

const shown = { reasoning: true, end: true };
const error = /^(APIError|InternalServerError)$/;

export default [
  {
    name: '`openai` for Node',
    api: 'Chat Completions',
    shows: { ...shown, ours: false },
    error,
    ways: {
      create: { start: byHand(create) },
      stream: { start: byHand(stream), streams: true },
      'stream helper': { start: byHand(streamHelper), streams: true },
      runTools: { start: runTools({}), raises: CUT_OFF },
      'runTools, streamed': { start: runTools({ stream: true }), streams: true, raises: CUT_OFF },
    },
  },
  {
    name: '`openai` for Node',
    api: 'Responses',
    shows: { ...shown, ours: true },
    error,
    ways: {
      create: { start: chain(createResponse) },
      stream: { start: chain(streamResponse), streams: true },
      'stream helper': { start: chain(responseHelper), streams: true },
    },
  },
];
