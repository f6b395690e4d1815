// The chat of the AI SDK (`useChat` without React), with the stock transport and the stock rule that
// posts a message again once its tools have their results.

import assert from 'node:assert/strict';

import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';

import { OPEN_FILE } from './play.mjs';

export const CHAT = '/api/v1/ai-sdk/chat';

/** The least that a chat needs to keep its messages. `onChange` is told of every change. */
export class Chat extends AbstractChat {
  constructor({ onChange = () => {}, ...init }) {
    const change = (messages) => { state.messages = messages; onChange(); };
    const state = {
      status: 'ready',
      error: undefined,
      messages: [],
      pushMessage: (message) => change([...state.messages, message]),
      popMessage: () => change(state.messages.slice(0, -1)),
      replaceMessage: (at, message) => change(state.messages.with(at, message)),
      snapshot: (thing) => structuredClone(thing),
    };
    super({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls, ...init, state });
  }

  get last() {
    return this.messages.at(-1);
  }

  /** The parts of the last message of this type. */
  parts(type) {
    return (this.last?.parts ?? []).filter((part) => part.type === type);
  }

  get text() {
    return this.parts('text').map(({ text }) => text).join('');
  }
}

/** Waits until a condition holds that the chat's messages will meet. */
export async function until(holds) {
  while (!holds()) await new Promise(setImmediate);
}

const { name, ...described } = OPEN_FILE;
const tools = { [name]: { description: described.description, parameters: described.schema } };

function start({ origin, offers }) {
  let heard;
  let failure;
  const chat = new Chat({
    id: 'chat 1/ü',
    transport: new DefaultChatTransport({ api: origin + CHAT, body: offers ? { tools } : {} }),
    onChange: () => { if (chat.last.role === 'assistant') heard.text = chat.text; },
    onToolCall: ({ toolCall: { toolName, toolCallId, input } }) => {
      chat.addToolOutput({ tool: toolName, toolCallId, output: heard.open(input.path) });
    },
    onFinish: ({ finishReason }) => { heard.end = finishReason; },
    onError: (error) => { failure = error; },
  });
  return async (prompt, hearing, signal) => {
    heard = hearing;
    signal.addEventListener('abort', () => chat.stop());
    await chat.sendMessage({ text: prompt });
    // A message whose tools have their results is posted again.
    if (offers) await until(() => chat.status === 'ready' && heard.end !== 'tool-calls');
    if (failure) throw failure;
    assert.ok(chat.last.parts.every(({ state }) => state !== 'streaming'), 'every part has ended');
    heard.reasoning = chat.parts('reasoning').map(({ text }) => text).join('');
    heard.ours = chat.parts('dynamic-tool').map((part) => [part.toolName, part.state === 'output-available']);
  };
}

export default [{
  name: 'the chat of `ai`',
  api: 'AI SDK',
  shows: { reasoning: true, ours: true, end: true },
  error: /^Error$/,
  ways: { sendMessage: { start, streams: true } },
}];
