// AG-UI's own client and `ag-ui-validate` against `/api/v1/ag-ui`: interrupts in all their forms.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { buildResumeArray } from '@ag-ui/client';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';
import { connect } from './table/ag_ui.mjs';

const JOHN = call('lookup_contacts', { name: 'John' });
const MAIL = call('send_message', { contact_id: 'contact_john_doe', text: 'Hello' });

/** An agent whose gateway is in front of a model with this script. */
async function start(t, script, tools = {}) {
  const told = [];
  const upstream = await startModel(t, script, told);
  const gateway = await startGateway(t, { upstreams: [upstream], tools: { demo: true, ...tools } });
  const connected = connect(gateway.origin);
  const words = () => connected.agent.messages
    .filter(({ role }) => role === 'assistant').map(({ content }) => content ?? '').join('|');
  return { ...connected, told, words };
}

const ofType = (events, type) => events.filter((event) => event.type === type);
const asked = (told) => JSON.stringify(told.at(-1).messages);

test('a question interrupts, and is answered by an option, by words, or dropped', async (t) => {
  for (const [response, told, content] of [
    [{ status: 'resolved', payload: { selected_option: 'contact_john_smith' } }, /contact_john_smith/, 'the user chose contact_john_smith'],
    [{ status: 'resolved', payload: 'contact_john_smith' }, /contact_john_smith/, 'the user chose contact_john_smith'],
    [{ status: 'cancelled' }, /left unanswered/, 'the user did not answer'],
  ]) {
    const { agent, run, say, told: requests, words } = await start(t, [`Let me see. ${JOHN}`, 'Fine.', 'Sure.']);
    const { events, end } = await say('Call John.');
    assert.equal(events.at(-2).type, 'MESSAGES_SNAPSHOT');
    const { interrupts } = end.outcome;
    assert.equal(interrupts[0].metadata.options.length, 3);
    await assert.rejects(say('Hello?'), /pending interrupt/, 'the client itself insists on an answer');
    if (response.status !== 'cancelled') agent.setMessages(agent.messages.slice(0, -1));
    const resume = buildResumeArray(interrupts, { [interrupts[0].id]: response });
    const resumed = await run({ resume });
    const [result] = ofType(resumed.events, 'TOOL_CALL_RESULT');
    assert.deepEqual([result.toolCallId, result.content], [interrupts[0].toolCallId, content]);
    assert.deepEqual(ofType(resumed.events, 'TOOL_CALL_START'), []);
    assert.match(words(), /Fine\.$/);
    assert.match(asked(requests), told);
    await say('Thanks.');
    if (response.status === 'resolved') assert.match(asked(requests), told, 'the answer is known later');
    assert.equal(asked(requests).split('Fine.').length, 2, 'told once');
  }
});

test('a call is approved in the run that resumes', async (t) => {
  const { run, say } = await start(t, [MAIL, 'Sent.'], { confirm: 'mutating' });
  const { end } = await say('Write to John.');
  const { interrupts } = end.outcome;
  assert.equal(interrupts[0].reason, 'tool_call');
  const resume = buildResumeArray(interrupts, { [interrupts[0].id]: { status: 'resolved', payload: { approved: true } } });
  const { events } = await run({ resume });
  const [result] = ofType(events, 'TOOL_CALL_RESULT');
  assert.equal(result.toolCallId, interrupts[0].toolCallId);
  await assert.rejects(run({ resume }), 'the same again is stale');
});
