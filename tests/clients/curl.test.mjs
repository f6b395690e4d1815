// `curl -N`: what a person sees first, and what scripts judge by the exit status.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';

import { readFrames, readOpenFrames, textOf } from '../lib/frames.mjs';
import { CHAT_STREAM, startGateway } from '../lib/gateway.mjs';

const CLEAN_END = 0;
const CUT_TRANSFER = 18;

/** Runs `curl -N`; `onData` sees its output grow. */
async function curl(args, onData = () => {}) {
  const child = spawn('curl', ['--no-buffer', '--silent', ...args]);
  let output = Buffer.alloc(0);
  child.stdout.on('data', (chunk) => {
    output = Buffer.concat([output, chunk]);
    onData(output);
  });
  const [status] = await once(child, 'close');
  return { status, output };
}

const ask = (gateway, prompt) => [gateway.origin + CHAT_STREAM, '-d', JSON.stringify({ prompt })];

test('a turn ends with status 0, its frames as the contract writes them', async (t) => {
  const gateway = await startGateway(t);
  const { status, output } = await curl(ask(gateway, 'What time is it in Tokyo, and what is 12*7?'));

  assert.equal(status, CLEAN_END);
  const frames = readFrames(output);
  const events = frames.map(({ event }) => event);
  assert.equal(events[0], 'turn_started');
  assert.equal(events.at(-1), 'turn_completed');
  assert.equal(events.filter((event) => event === 'tool_started').length, 2);
  assert.equal(events.filter((event) => event === 'tool_completed').length, 2);
  assert.match(textOf(frames), /Asia\/Tokyo.*12\s*\*\s*7 = 84/s);
});

test('a re-join brings the same bytes again, or those after the last id', async (t) => {
  const gateway = await startGateway(t);
  const answer = await gateway.begin('Count to 30');
  const live = Buffer.from(await answer.arrayBuffer());
  const rejoin = gateway.origin + answer.headers.get('location');

  const whole = await curl([rejoin]);
  assert.equal(whole.status, CLEAN_END);
  assert.ok(whole.output.equals(live), 'every byte is the same');

  const rest = await curl([rejoin, '-H', 'Last-Event-ID: 1-3']);
  assert.equal(rest.status, CLEAN_END);
  assert.equal(readFrames(rest.output, { after: 3 }).length, readFrames(live).length - 3);
  assert.ok(live.subarray(-rest.output.length).equals(rest.output));
});

test('text arrives while the model is still writing', async (t) => {
  const gateway = await startGateway(t, { tokensPerSec: 20 });
  const prompt = { session_id: 'watched', prompt: 'Count to 10000' };
  // The turn would take many minutes: what curl shows in time, it shows before the end.
  let cancelled;
  const { status, output } = await curl(
    [gateway.origin + CHAT_STREAM, '-d', JSON.stringify(prompt)],
    (shown) => {
      if (cancelled || !shown.includes('text_delta')) return;
      cancelled = fetch(`${gateway.origin}/api/v1/chat/cancel`, {
        method: 'POST', body: JSON.stringify({ session_id: prompt.session_id }),
      });
    },
  );

  assert.equal((await cancelled).status, 202);
  assert.equal(status, CLEAN_END);
  const last = readFrames(output).at(-1);
  assert.equal(JSON.parse(last.data).data.finish_reason, 'cancelled');
});

test('a gateway that dies in mid-stream gives status 18', async (t) => {
  const gateway = await startGateway(t, { tokensPerSec: 20 });
  const { status, output } = await curl(ask(gateway, 'Count to 10000'), (shown) => {
    if (shown.includes('text_delta')) gateway.kill();
  });

  assert.equal(status, CUT_TRANSFER);
  const events = readOpenFrames(output).map(({ event }) => event);
  assert.equal(events[0], 'turn_started');
  assert.ok(!events.includes('turn_completed') && !events.includes('turn_failed'));
});
