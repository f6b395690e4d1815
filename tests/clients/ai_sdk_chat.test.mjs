// The chat of the AI SDK (`useChat` without React) against `/api/v1/ai-sdk/chat`, with the stock
// transport and the stock rule that posts a message again once its tools have their results.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { test } from 'node:test';

import {
  AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls, parseJsonEventStream,
  readUIMessageStream, uiMessageChunkSchema,
} from 'ai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const CHAT = '/api/v1/ai-sdk/chat';
const SUM = call('calculate', { expression: '6*7' });
const SUMS = `${SUM} ${call('calculate', { expression: '1+1' })}`;
const OPEN = call('open_file', { path: 'a' });
const JOHN = call('lookup_contacts', { name: 'John' });

const tools = {
  open_file: {
    description: 'Opens a file.',
    parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
  },
};

/** The least that a chat needs to keep its messages. */
class Chat extends AbstractChat {
  constructor(init) {
    const state = {
      status: 'ready',
      error: undefined,
      messages: [],
      pushMessage: (message) => { state.messages = [...state.messages, message]; },
      popMessage: () => { state.messages = state.messages.slice(0, -1); },
      replaceMessage: (at, message) => { state.messages = state.messages.with(at, message); },
      snapshot: (thing) => structuredClone(thing),
    };
    super({ ...init, state });
  }

  get last() {
    return this.messages.at(-1);
  }

  /** The parts of the last message of this type. */
  parts(type) {
    return (this.last?.parts ?? []).filter((part) => part.type === type);
  }

  get text() {
    return this.parts('text').map(({ text }) => text).join('|');
  }
}

/** A chat with a gateway in front of a model with this script, and the requests to both. */
async function start(t, script, { sections = {}, body = {}, ...init } = {}) {
  const told = [];
  const posts = [];
  const errors = [];
  const upstream = await startModel(t, script, told);
  const gateway = await startGateway(t, { upstreams: [upstream], tools: { demo: true }, ...sections });
  const transport = new DefaultChatTransport({
    api: gateway.origin + CHAT,
    body,
    fetch: (url, options) => {
      if (options?.method === 'POST') posts.push(JSON.parse(options.body));
      return fetch(url, options);
    },
  });
  const chat = new Chat({
    id: 'chat 1/ü',
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onError: (error) => errors.push(error.message),
    ...init,
  });
  return { chat, told, posts, errors, gateway };
}

/** Waits until a condition holds that the chat's messages will meet. */
async function until(holds) {
  while (!holds()) await new Promise(setImmediate);
}

const say = (chat, text) => chat.sendMessage({ text });

test('text and reasoning', async (t) => {
  const { chat, posts } = await start(t, ['<think>Six sevens.</think>It is 42.']);
  await say(chat, 'What is 6*7?');
  assert.deepEqual([chat.text, chat.status], ['It is 42.', 'ready']);
  assert.equal(chat.parts('reasoning')[0].text, 'Six sevens.');
  assert.ok(chat.last.parts.every(({ state }) => state !== 'streaming'), 'every part has ended');
  assert.equal(posts.length, 1);
});

test('one and several tools of ours, and a failing one, are posted once', async (t) => {
  for (const [script, states] of [
    [[`Let me see. ${SUM}`, 'So.'], ['output-available']],
    [[SUMS, 'So.'], ['output-available', 'output-available']],
    [[call('calculate', { expression: '1/0' }), 'So.'], ['output-error']],
  ]) {
    const { chat, posts, told } = await start(t, script);
    await say(chat, 'Calculate.');
    assert.deepEqual(chat.parts('dynamic-tool').map(({ state }) => state), states);
    assert.ok(chat.parts('dynamic-tool').every(({ providerExecuted }) => providerExecuted));
    assert.match(chat.text, /So\.$/);
    await new Promise(setImmediate);
    assert.equal(posts.length, 1, 'the stock rule posts nothing again');
    assert.equal(told.length, 2);
  }
});

test('what our tools found is known in the next message', async (t) => {
  const { chat, told } = await start(t, [SUM, 'It is 42.', 'Quite.']);
  await say(chat, 'What is 6*7?');
  await say(chat, 'Sure?');
  const asked = JSON.stringify(told.at(-1).messages);
  assert.match(asked, /\\"result\\":\\"42\\"/);
  assert.equal(asked.split('It is 42.').length, 2, 'told once');
});

test('tools of the page alone and beside ours continue its message', async (t) => {
  for (const first of [OPEN, `${SUM} ${OPEN}`]) {
    const opened = [];
    const { chat, posts, told } = await start(t, [first, 'It says milk.'], {
      body: { tools },
      onToolCall: ({ toolCall }) => {
        opened.push(toolCall.input.path);
        chat.addToolOutput({ tool: 'open_file', toolCallId: toolCall.toolCallId, output: 'Buy milk.' });
      },
    });
    await say(chat, 'Open it.');
    await until(() => /It says milk\.$/.test(chat.text) && chat.status === 'ready');
    assert.deepEqual([opened, posts.length, chat.messages.length], [['a'], 2, 2]);
    assert.match(JSON.stringify(told.at(-1).messages), /Buy milk/);
    if (first !== OPEN) assert.match(JSON.stringify(told.at(-1).messages), /\\"result\\":\\"42\\"/);
  }
});

test('a question is answered by its option or by words, or dropped', async (t) => {
  for (const [words, body, told] of [
    ['2', {}, /contact_john_smith/],
    ['john smith', {}, /contact_john_smith/],
    ['That one.', (id) => ({ clarification_response: { clarification_id: id, selected_option: { id: 'contact_john_smith' } } }), /contact_john_smith/],
    ['Forget it.', {}, /left unanswered/],
  ]) {
    const { chat, told: requests } = await start(t, [JOHN, 'Fine.']);
    await say(chat, 'Call John.');
    assert.match(chat.text, /Which John.*\n1\. John Doe/);
    const [{ id, data }] = chat.parts('data-clarification');
    assert.equal(data.options.length, 3);
    await chat.sendMessage({ text: words }, { body: typeof body === 'function' ? body(id) : body });
    assert.equal(chat.text, 'Fine.');
    assert.match(JSON.stringify(requests.at(-1).messages), told, words);
  }
});

test('the loop limit, the token limit, and a model that dies', async (t) => {
  const limited = await start(t, [SUM, 'So.'], { sections: { limits: { max_tool_loops: 1 }, tools: { demo: true } } });
  await say(limited.chat, 'Calculate.');
  assert.match(limited.chat.text, /So\.$/);

  let reason;
  const cut = await start(t, [{ say: 'One, two', finish: 'length' }], { onFinish: ({ finishReason }) => { reason = finishReason; } });
  await say(cut.chat, 'Count.');
  assert.equal(reason, 'length');

  const dead = await start(t, [{ say: 'One, two', dies: true }]);
  await say(dead.chat, 'Count.');
  assert.deepEqual([dead.chat.status, dead.errors], ['error', ['The model failed. Try again.']]);
  assert.match(dead.chat.text, /One, two/);

  const refused = await start(t, [], { body: { model: 'gpt-9' } });
  await say(refused.chat, 'Count.');
  assert.match(refused.errors[0], /^no upstream is named|gpt-9/);
});

test('a page that comes back joins the running turn from its first part', async (t) => {
  let release;
  const holds = new Promise((resolve) => { release = resolve; });
  const { chat, gateway } = await start(t, [{ say: 'Well, then.', holds }]);
  const saying = say(chat, 'Go.');
  await until(() => chat.text === 'Well, then.');
  const again = new Chat({ id: chat.id, transport: new DefaultChatTransport({ api: gateway.origin + CHAT }) });
  again.messages = chat.messages.slice(0, 1);
  const joining = again.resumeStream();
  await until(() => again.last?.role === 'assistant' && again.text === 'Well, then.');
  assert.equal(again.last.id, chat.last.id, 'the same message');
  release();
  await Promise.all([saying, joining]);
  assert.deepEqual(again.messages, chat.messages);
  await again.resumeStream();
  assert.equal(again.messages.length, 2, 'nothing runs any more');
});

test('a turn is stopped by a call of its own', async (t) => {
  const { chat, gateway } = await start(t, [{ say: 'Well', holds: new Promise(() => {}) }]);
  const saying = say(chat, 'Go.');
  await until(() => chat.text === 'Well');
  const { status } = await fetch(`${gateway.origin}${CHAT}/${encodeURIComponent(chat.id)}/stream`, { method: 'DELETE' });
  assert.equal(status, 202);
  await saying;
  assert.deepEqual([chat.text, chat.status], ['Well', 'ready']);
});

/** The gateway, with its answers cut into pieces of one byte. */
async function startCutter(t, gateway) {
  const cutter = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const through = request(gateway.origin + url, { method, headers: { ...headers, host: new URL(gateway.origin).host } }, async (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      for await (const piece of answer) {
        for (const byte of piece) {
          outgoing.write(Buffer.of(byte));
          await new Promise(setImmediate);
        }
      }
      outgoing.end();
    });
    incoming.pipe(through);
  }).listen(0, '127.0.0.1');
  await once(cutter, 'listening');
  t.after(() => { cutter.close(); cutter.closeAllConnections(); });
  return `http://127.0.0.1:${cutter.address().port}`;
}

test('the pure reader takes a stream in single bytes, and keep-alives at 10 ms', async (t) => {
  let goOn;
  const holds = new Promise((resolve) => { goOn = resolve; });
  const { gateway } = await start(t, [SUM, { say: 'It is 42.', holds }], { sections: { stream: { keep_alive_sec: 0.01 }, tools: { demo: true } } });
  const origin = await startCutter(t, gateway);
  const messages = [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'What is 6*7?' }] }];
  const response = await fetch(origin + CHAT, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: 'c', messages, trigger: 'submit-message' }),
  });
  assert.equal(response.headers.get('x-vercel-ai-ui-message-stream'), 'v1');
  // The model waits until five have come.
  let seen = '';
  const counted = response.body.pipeThrough(new TransformStream({
    transform: (bytes, out) => {
      seen += new TextDecoder().decode(bytes);
      if (seen.split('\n\n').filter((frame) => frame === ':').length >= 5) goOn();
      out.enqueue(bytes);
    },
  }));
  const chunks = parseJsonEventStream({ stream: counted, schema: uiMessageChunkSchema }).pipeThrough(new TransformStream({
    transform: (chunk, out) => { assert.ok(chunk.success, chunk.error); out.enqueue(chunk.value); },
  }));
  let last;
  for await (const message of readUIMessageStream({ stream: chunks, terminateOnError: true })) last = message;
  assert.deepEqual(last.parts.map(({ type }) => type), ['step-start', 'dynamic-tool', 'step-start', 'text']);
  assert.equal(last.parts.at(-1).text, 'It is 42.');
});
