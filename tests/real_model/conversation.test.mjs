// The main job on a real model: llama.cpp's server with 135M parameters, the real binary in
// front of it, a conversation over HTTP. What the model says is its own affair; that it
// calls, hears of the result and answers is looked at.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readFrames, textOf } from '../lib/frames.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { startLlama } from './llama.mjs';

const ANSWER_TOKENS_MAX = 120;
// Half a minute's work: what ends at once was ended.
const ENDLESS_TOKENS = 1500;
const LONG_STORY = { prompt: 'Tell a long story about a dog.', tools: [] };
// The reads of an answer that was carried token by token; one, if it was held until its end.
const READS_MIN = 5;

function startInFrontOf(t, llama, sections = {}) {
  return startGateway(t, {
    upstreams: [{
      name: 'llama', kind: 'openai_chat', base_url: `${llama.origin}/v1`,
      constrain: 'llama_grammar', history: 'text',
    }],
    model: { context_budget_tokens: 3500 },
    // The same answers each time, after a mistake too.
    feedback: { temperature_step: 0 },
    ...sections,
  });
}

/** Begins a turn; the answer is a `Response` whose body streams. */
function begin(gateway, fields, tokensMax = ANSWER_TOKENS_MAX) {
  const sampling = { temperature: 0, seed: 1, max_tokens: tokensMax };
  const body = JSON.stringify({ max_tool_loops: 2, sampling, ...fields });
  return gateway.begin(fields.prompt, { body });
}

const speaks = (bytes) => Buffer.from(bytes).includes('event: text_delta');

/** Reads a turn to its end; `onText` is awaited once, after the first words. */
async function read(response, onText = async () => {}) {
  const reads = [];
  for await (const bytes of response.body) {
    reads.push(Buffer.from(bytes));
    if (reads.filter(speaks).length === 1 && speaks(bytes)) await onText();
  }
  const frames = readFrames(Buffer.concat(reads));
  const events = frames.map(({ event, data }) => ({ event, ...JSON.parse(data).data }));
  const all = (event) => events.filter((each) => each.event === event);
  const withText = reads.filter(speaks).length;
  return { all, end: events.at(-1), text: textOf(frames), withText };
}

const turn = async (gateway, fields) => read(await begin(gateway, fields));

/** That a turn came to a good end with words that were streamed. */
function assertAnswered(t, { end, text, withText }) {
  t.diagnostic(JSON.stringify(end));
  assert.equal(end.event, 'turn_completed');
  assert.ok(['stop', 'length', 'loop_limit'].includes(end.finish_reason), end.finish_reason);
  assert.notEqual(text.trim(), '');
  assert.equal(end.text, text);
  assert.ok(withText > 0);
  assert.ok(end.usage.prompt_tokens > 0 && end.usage.completion_tokens > 0);
  assert.ok(end.usage.completion_tokens <= end.loops * ANSWER_TOKENS_MAX);
}

/** Which tool so small a model would choose is not the point here. */
const CLOCK = { tool_choice: { name: 'get_current_time' } };

/** That the model called the clock, and that it ran well. */
function assertTold(turn, zone) {
  const [started] = turn.all('tool_started');
  const [completed] = turn.all('tool_completed');
  assert.equal(started?.tool_name, 'get_current_time');
  assert.equal(completed.call_id, started.call_id);
  assert.equal(completed.tool_result.success, true);
  assert.equal(completed.tool_result.data.timezone, zone);
}

test('a model behind llama.cpp', async (all) => {
  const llama = await startLlama(all);

  await all.test('calls a tool, answers, and is asked again', async (t) => {
    const gateway = await startInFrontOf(t, llama);
    const first = await turn(gateway, { session_id: 's', prompt: 'What time is it in Tokyo?', ...CLOCK });
    assertTold(first, 'Asia/Tokyo');
    assertAnswered(t, first);
    assert.ok(first.withText >= READS_MIN, `the answer came in ${first.withText} reads`);

    const second = await turn(gateway, { session_id: 's', prompt: 'Thank you. Say goodbye.' });
    assertAnswered(t, second);
    const transcript = await (await fetch(`${gateway.origin}/api/v1/sessions/s`)).json();
    assert.equal(transcript.turns.length, 2);
    const { call } = transcript.turns[0].steps[0].parts.find((part) => part.call);
    assert.equal(call.outcome.ended.success, true);
  });

  await all.test('calls a tool, and is then brought to a close', async (t) => {
    const gateway = await startInFrontOf(t, llama);
    const prompt = 'What is the time in New York right now?';
    const asked = await turn(gateway, { prompt, max_tool_loops: 1, ...CLOCK });
    assertTold(asked, 'America/New_York');
    assertAnswered(t, asked);
    // What it says in the end depends on the time of day; it may go on until it is cut.
    assert.ok(['loop_limit', 'length'].includes(asked.end.finish_reason), asked.end.finish_reason);
    assert.equal(asked.all('loop_limit_reached').length, 1);
    assert.equal(asked.all('tool_started').length, 1);
  });

  await all.test('answers without a call', async (t) => {
    const gateway = await startInFrontOf(t, llama);
    const answer = await turn(gateway, { prompt: 'Say hello.' });
    assertAnswered(t, answer);
    assert.deepEqual(answer.all('tool_marker_detected'), []);
    assert.equal(answer.end.tool_calls, 0);
    assert.equal(answer.end.loops, 1);
  });

  await all.test('stops when its turn is cancelled', async (t) => {
    const gateway = await startInFrontOf(t, llama);
    const response = await begin(gateway, { ...LONG_STORY, session_id: 's' }, ENDLESS_TOKENS);
    const { end, text } = await read(response, async () => {
      assert.ok(await llama.isBusy());
      const body = JSON.stringify({ session_id: 's' });
      const cancel = await fetch(`${gateway.origin}/api/v1/chat/cancel`, { method: 'POST', body });
      assert.equal(cancel.status, 202);
    });
    assert.equal(end.finish_reason, 'cancelled');
    assert.equal(end.text, text);
    await llama.idle();
  });

  await all.test('stops when its reader has left', async (t) => {
    const gateway = await startInFrontOf(t, llama, { stream: { disconnect_grace_sec: 0 } });
    const response = await begin(gateway, LONG_STORY, ENDLESS_TOKENS);
    for await (const bytes of response.body) {
      if (speaks(bytes)) break;
    }
    await llama.idle();
  });
});

test('a model server that is killed', async (t) => {
  const llama = await startLlama(t);
  const gateway = await startInFrontOf(t, llama);
  const response = await begin(gateway, LONG_STORY, ENDLESS_TOKENS);
  const { end, text } = await read(response, () => llama.kill());
  assert.equal(end.event, 'turn_failed');
  assert.equal(end.code, 'upstream_error');
  assert.equal(end.retryable, true);
  assert.equal(end.text, text);

  const later = await turn(gateway, { prompt: 'Are you there?' });
  assert.equal(later.end.event, 'turn_failed');
  assert.equal(later.end.code, 'upstream_unavailable');
  assert.match(later.end.message, /is the model server running\?/);
});
