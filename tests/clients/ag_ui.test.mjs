// AG-UI's own client, with its verifier, and `ag-ui-validate` against `/api/v1/ag-ui`.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';

import { HttpAgent, buildResumeArray } from '@ag-ui/client';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const RUN = '/api/v1/ag-ui';
const SUM = call('calculate', { expression: '6*7' });
const SUMS = `${SUM} ${call('calculate', { expression: '1+1' })}`;
const OPEN = call('open_file', { path: 'a' });
const JOHN = call('lookup_contacts', { name: 'John' });
const MAIL = call('send_message', { contact_id: 'contact_john_doe', text: 'Hello' });

const tools = [{
  name: 'open_file',
  description: 'Opens a file.',
  parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
}];

/**
 * What `ag-ui-validate` finds wrong with a stream: errors and warnings. It sees one run. One that
 * resumes another has the result of a call that began there, as the protocol wants it.
 */
async function findings(stream, { resumes }) {
  const off = resumes ? ['--off', 'AGUI207'] : [];
  const child = spawn('python3', ['-m', 'ag_ui_validate.cli', '-', '--json', ...off]);
  child.stdin.end(stream);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => { stdout += text; });
  child.stderr.on('data', (text) => { stderr += text; });
  await once(child, 'close');
  assert.ok(stdout.startsWith('{'), `ag-ui-validate: ${stderr}`);
  return JSON.parse(stdout).diagnostics.filter(({ severity }) => severity !== 'info');
}

/**
 * An agent whose gateway is in front of a model with this script. `say` runs a turn; `onText` sees
 * the stream as it comes.
 */
async function start(t, script, sections = {}, onText = () => {}) {
  const told = [];
  const streams = [];
  const upstream = await startModel(t, script, told);
  const gateway = await startGateway(t, { upstreams: [upstream], tools: { demo: true }, ...sections });
  const agent = new HttpAgent({
    url: gateway.origin + RUN,
    threadId: 'thread',
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      const watched = response.body.pipeThrough(new TransformStream({
        transform: (bytes, out) => { onText(new TextDecoder().decode(bytes)); out.enqueue(bytes); },
      }));
      const [kept, read] = watched.tee();
      streams.push(new Response(kept).text());
      return new Response(read, response);
    },
  });
  const run = async (parameters = {}, subscriber = {}) => {
    const seen = [];
    const { result } = await agent.runAgent({ tools: [], ...parameters }, {
      onEvent: ({ event }) => { seen.push(event); },
      ...subscriber,
    });
    assert.deepEqual(await findings(await streams.at(-1), { resumes: Boolean(parameters.resume) }), []);
    return { events: seen, result, end: seen.at(-1) };
  };
  const say = (content, parameters) => {
    agent.addMessage({ id: crypto.randomUUID(), role: 'user', content });
    return run(parameters);
  };
  const words = () => agent.messages.filter(({ role }) => role === 'assistant').map(({ content }) => content ?? '').join('|');
  return { agent, run, say, told, words, streams, gateway };
}

const ofType = (events, type) => events.filter((event) => event.type === type);
const asked = (told) => JSON.stringify(told.at(-1).messages);

test('text and reasoning', async (t) => {
  const { agent, say, words } = await start(t, ['<think>Six sevens.</think>It is 42.']);
  const { end, result } = await say('What is 6*7?');
  assert.deepEqual([words(), end.outcome.type, result.finish_reason], ['It is 42.', 'success', 'stop']);
  assert.equal(agent.messages.find(({ role }) => role === 'reasoning').content, 'Six sevens.');
});

test('one and several tools of ours, and a failing one, leave nothing to run', async (t) => {
  for (const [script, results] of [
    [[`Let me see. ${SUM}`, 'So.'], 1],
    [[SUMS, 'So.'], 2],
    [[call('calculate', { expression: '1/0' }), 'So.'], 1],
  ]) {
    const { say, words, agent } = await start(t, script);
    let pending;
    agent.subscribe({ onRunFinishedEvent: ({ pendingToolCallIds }) => { pending = pendingToolCallIds; } });
    const { events } = await say('Calculate.');
    assert.equal(ofType(events, 'TOOL_CALL_RESULT').length, results);
    assert.deepEqual(pending ?? [], []);
    assert.match(words(), /So\.$/);
  }
});

test('what our tools found is known in the next run', async (t) => {
  const { say, told } = await start(t, [SUM, 'It is 42.', 'Quite.']);
  await say('What is 6*7?');
  await say('Sure?');
  assert.match(asked(told), /\\"result\\":\\"42\\"/);
  assert.equal(asked(told).split('It is 42.').length, 2, 'told once');
});

test('tools of the page alone and beside ours', async (t) => {
  for (const first of [OPEN, `${SUM} ${OPEN}`]) {
    const { agent, run, say, told, words } = await start(t, [first, 'It says milk.']);
    let pending;
    agent.subscribe({ onRunFinishedEvent: ({ pendingToolCallIds }) => { pending = pendingToolCallIds; } });
    await say('Open it.', { tools });
    assert.equal(pending.length, 1);
    agent.addMessage({ id: 'x', role: 'tool', toolCallId: pending[0], content: 'Buy milk.' });
    await run({ tools });
    assert.match(words(), /It says milk\.$/);
    assert.match(asked(told), /Buy milk/);
    if (first !== OPEN) assert.match(asked(told), /\\"result\\":\\"42\\"/);
  }
});

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
  const { run, say } = await start(t, [MAIL, 'Sent.'], { tools: { demo: true, confirm: 'mutating' } });
  const { end } = await say('Write to John.');
  const { interrupts } = end.outcome;
  assert.equal(interrupts[0].reason, 'tool_call');
  const resume = buildResumeArray(interrupts, { [interrupts[0].id]: { status: 'resolved', payload: { approved: true } } });
  const { events } = await run({ resume });
  const [result] = ofType(events, 'TOOL_CALL_RESULT');
  assert.equal(result.toolCallId, interrupts[0].toolCallId);
  await assert.rejects(run({ resume }), 'the same again is stale');
});

test('the loop limit, the token limit, and a model that dies', async (t) => {
  const limited = await start(t, [SUM, 'So.'], { limits: { max_tool_loops: 1 } });
  const { result } = await limited.say('Calculate.');
  assert.equal(result.finish_reason, 'loop_limit');

  const cut = await start(t, [{ say: 'One, two', finish: 'length' }]);
  assert.equal((await cut.say('Count.')).result.finish_reason, 'length');

  const dead = await start(t, [{ say: 'One, two', dies: true }]);
  const failed = await dead.say('Count.');
  assert.deepEqual([failed.end.type, failed.end.code], ['RUN_ERROR', 'upstream_error']);
  assert.ok(!failed.end.message.includes('127.'), failed.end.message);
});

test('a client that leaves ends its turn', async (t) => {
  const { agent, gateway, say } = await start(t, [{ say: 'Well', holds: new Promise(() => {}) }]);
  const saying = say('Go.').catch(() => {});
  while (!agent.messages.some(({ content }) => content === 'Well')) await new Promise(setImmediate);
  agent.abortRun();
  await saying;
  const metrics = async () => (await fetch(`${gateway.origin}/metrics`)).text();
  while (!/tether_turns_total\{outcome="cancelled"\} 1/.test(await metrics())) await new Promise(setImmediate);
});

test('keep-alives at 10 ms are no events', async (t) => {
  let goOn;
  const holds = new Promise((resolve) => { goOn = resolve; });
  let seen = '';
  // The model waits until five have come.
  const onText = (text) => {
    seen += text;
    if (seen.split('\n\n').filter((frame) => frame === ':').length >= 5) goOn();
  };
  const { say, words } = await start(t, [{ say: 'Well.', holds }], { stream: { keep_alive_sec: 0.01 } }, onText);
  await say('Go.');
  assert.equal(words(), 'Well.');
});
