// The chat of the AI SDK (`useChat` without React) against `/api/v1/ai-sdk/chat`: what the scenarios of
// all clients do not show.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DefaultChatTransport } from 'ai';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';
import { CHAT, Chat, until } from './table/ai_sdk_chat.mjs';

const JOHN = call('lookup_contacts', { name: 'John' });

/** A chat whose gateway is in front of a model with this script, and what the model is told. */
async function start(t, script, body = {}) {
  const told = [];
  const errors = [];
  const upstream = await startModel(t, script, told);
  const gateway = await startGateway(t, { upstreams: [upstream], tools: { demo: true } });
  const transport = new DefaultChatTransport({ api: gateway.origin + CHAT, body });
  const chat = new Chat({ id: 'chat 1/ü', transport, onError: (error) => errors.push(error.message) });
  return { chat, told, errors, gateway };
}

const say = (chat, text) => chat.sendMessage({ text });

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

test('a model that is unknown is an error in words', async (t) => {
  const { chat, errors } = await start(t, [], { model: 'gpt-9' });
  await say(chat, 'Count.');
  assert.match(errors[0], /^there is no model "gpt-9"; available: /);
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
