// Pages of other origins: those that the configuration names, and all others. None of them
// gets the playground's clicks.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { openPage, startBrowser } from '../lib/browser.mjs';
import { readFrames } from '../lib/frames.mjs';
import { AT_ONCE, CHAT_STREAM, startGateway, turn } from '../lib/gateway.mjs';
import { startPages } from '../lib/pages.mjs';

/** Runs in the page: what `fetch` brings, or that it is refused. */
async function read([url, init]) {
  try {
    const response = await fetch(url, init);
    const exposed = [...response.headers.keys()].filter((name) => /^(location|x-request-id)$/.test(name));
    return { status: response.status, exposed, body: await response.text() };
  } catch (error) {
    return { refused: error.name };
  }
}

test('fetch streams to an allowed origin and to no other', async (t) => {
  const [allowed, foreign] = [await startPages(t), await startPages(t)];
  const server = { cors_origins: [allowed.origin] };
  const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, server });
  const browser = await startBrowser(t);
  const url = gateway.origin + CHAT_STREAM;
  const ask = turn('What is 12*7?');
  // Without its content type the browser asks nothing first: the gateway has to refuse it.
  const sneak = { method: 'POST', body: ask.body };

  const { page: friend } = await openPage(browser, allowed.origin);
  const { status, exposed, body } = await friend.evaluate(read, [url, ask]);
  assert.equal(status, 200);
  assert.deepEqual(exposed, ['location', 'x-request-id']);
  const { data } = readFrames(Buffer.from(body)).at(-1);
  assert.match(JSON.parse(data).data.text, /84/);

  const { page: stranger } = await openPage(browser, foreign.origin);
  for (const init of [ask, sneak, {}]) {
    assert.deepEqual(await stranger.evaluate(read, [url, init]), { refused: 'TypeError' });
  }
  // Not even unseen has a stranger begun a turn.
  const metrics = await (await fetch(`${gateway.origin}/metrics`)).text();
  assert.match(metrics, /^tether_turns_total\{[^}]*\} 1$/m);
});

test('SDKs may send their own headers from an allowed origin', async (t) => {
  const allowed = await startPages(t);
  const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, server: { cors_origins: [allowed.origin] } });
  const browser = await startBrowser(t);
  const { page } = await openPage(browser, allowed.origin);
  const messages = [{ role: 'user', content: 'Hello?' }];
  const common = { 'content-type': 'application/json', 'x-stainless-lang': 'js', 'x-stainless-retry-count': '0', 'x-session-id': 's' };
  for (const [path, headers] of [
    ['/v1/chat/completions', { authorization: 'Bearer none', 'openai-organization': 'o' }],
    ['/v1/messages', { 'x-api-key': 'none', 'anthropic-version': '2023-06-01', 'anthropic-dangerous-direct-browser-access': 'true' }],
  ]) {
    const body = JSON.stringify({ model: 'embedded', max_tokens: 100, messages });
    const init = { method: 'POST', headers: { ...common, ...headers }, body };
    const answer = await page.evaluate(read, [gateway.origin + path, init]);
    assert.equal(answer.status, 200, path);
  }
});

test('the playground cannot be framed', async (t) => {
  const foreign = await startPages(t);
  const gateway = await startGateway(t);
  const browser = await startBrowser(t);

  const { page } = await openPage(browser, foreign.origin);
  const loaded = page.waitForEvent('framenavigated', (frame) => frame !== page.mainFrame());
  await page.evaluate((src) => document.body.append(Object.assign(document.createElement('iframe'), { src })), gateway.origin);

  assert.match((await loaded).url(), /^chrome-error:/);
});
