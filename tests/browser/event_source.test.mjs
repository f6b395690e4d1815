// The browser's own EventSource.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { openPage, startBrowser } from '../lib/browser.mjs';
import { EVENT_TYPES, readFrames } from '../lib/frames.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { startPages } from '../lib/pages.mjs';
import { startProxy } from '../lib/proxy.mjs';
import { SEED, random } from '../lib/random.mjs';

/** Runs in the page: reads until the EventSource stops by itself. */
function readToTheEnd([url, types]) {
  return new Promise((resolve) => {
    const source = new EventSource(url);
    const events = [];
    for (const type of types) {
      source.addEventListener(type, ({ lastEventId, data }) => {
        events.push({ id: lastEventId, event: type, data });
      });
    }
    source.addEventListener('error', () => {
      if (source.readyState === EventSource.CLOSED) resolve(events);
    });
  });
}

// From another origin: Last-Event-ID goes along without a preflight, as the ids are made for.
test('an EventSource re-joins without gaps or duplicates, and stops by itself', async (t) => {
  t.diagnostic(`TEST_SEED=${SEED}`);
  const next = random();
  const cuts = Array.from({ length: 3 }, () => next(500, 6000));
  const pages = await startPages(t);
  const gateway = await startGateway(t, { tokensPerSec: 60, server: { cors_origins: [pages.origin] } });
  const proxy = await startProxy(t, gateway.port, cuts);
  const browser = await startBrowser(t);
  const { page } = await openPage(browser, pages.origin);
  const location = await gateway.beginAndLeave('Count to 200');

  const types = ['message', ...EVENT_TYPES];
  const events = await page.evaluate(readToTheEnd, [proxy.origin + location, types]);

  assert.equal(proxy.cut, cuts.length, 'every cut has happened');
  assert.deepEqual(events, readFrames(await gateway.replay(location)));
  assert.ok(!proxy.asked.includes('OPTIONS '), 'nothing needed a preflight');
  assert.match(proxy.asked, /last-event-id: 1-/i);
});
