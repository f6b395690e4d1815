// npm `eventsource`, the reference implementation of the browser's EventSource.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { EventSource as EventSource5 } from 'eventsource';
import { EventSource as EventSource4 } from 'eventsource-4';

import { EVENT_TYPES, readFrames } from '../lib/frames.mjs';
import { AT_ONCE, startGateway } from '../lib/gateway.mjs';
import { startProxy } from '../lib/proxy.mjs';
import { SEED, random } from '../lib/random.mjs';

const NO_CONTENT = 204;
// A response's head alone is some 400 bytes: a cut can fall into it, too.
const [CUT_MIN, CUT_MAX] = [200, 6000];

/** Reads until the client stops by itself; resolves to what it got and why it stopped. */
function readToTheEnd(EventSource, url) {
  return new Promise((resolve) => {
    const source = new EventSource(url);
    const events = [];
    const note = ({ type, data, lastEventId }) => {
      events.push({ id: lastEventId, event: type, data });
    };
    for (const type of ['message', ...EVENT_TYPES]) source.addEventListener(type, note);
    source.addEventListener('error', ({ code }) => {
      if (source.readyState === source.CLOSED) resolve({ events, code });
    });
  });
}

describe('EventSource re-joins without gaps or duplicates, and stops by itself', { concurrency: true }, () => {
  for (const [version, EventSource] of [[4, EventSource4], [5, EventSource5]]) {
    test(`version ${version}, a turn that still runs`, async (t) => {
      t.diagnostic(`TEST_SEED=${SEED}`);
      const next = random(SEED + version);
      const cuts = Array.from({ length: 4 }, () => next(CUT_MIN, CUT_MAX));
      const gateway = await startGateway(t, { tokensPerSec: 60 });
      const proxy = await startProxy(t, gateway.port, cuts);
      const location = await gateway.beginAndLeave('Count to 250');

      const { events, code } = await readToTheEnd(EventSource, proxy.origin + location);

      assert.equal(proxy.cut, cuts.length, 'every cut has happened');
      assert.equal(code, NO_CONTENT);
      assert.deepEqual(events, readFrames(await gateway.replay(location)));
    });

    test(`version ${version}, a turn that is over, with calls`, async (t) => {
      const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
      const answer = await gateway.begin('What time is it in Tokyo, and what is 12*7?');
      const frames = readFrames(Buffer.from(await answer.arrayBuffer()));
      const proxy = await startProxy(t, gateway.port, [1200, 1500]);

      const url = proxy.origin + answer.headers.get('location');
      const { events, code } = await readToTheEnd(EventSource, url);

      assert.equal(proxy.cut, 2);
      assert.equal(code, NO_CONTENT);
      assert.deepEqual(events, frames);
    });
  }
});
