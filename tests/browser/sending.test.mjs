// Prompts that do not get through, keys that are refused, and what Stop and New do meanwhile.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { accessibilityProblems, ask, openPage, startBrowser } from '../lib/browser.mjs';
import { AT_ONCE, startGateway } from '../lib/gateway.mjs';
import { startProxy } from '../lib/proxy.mjs';

/** Loads the page again with other values for its constants. */
async function patch(page, constants) {
  await page.route(page.url(), async (route) => {
    const response = await route.fetch();
    let body = await response.text();
    for (const [name, value] of Object.entries(constants)) {
      const line = new RegExp(`const ${name} = [\\d_]+`);
      assert.match(body, line);
      body = body.replace(line, `const ${name} = ${value}`);
    }
    await route.fulfill({ response, body });
  });
  await page.reload();
}

const keptTurns = (page) => page.evaluate(() => JSON.parse(sessionStorage.getItem('tether'))?.turns.length ?? 0);
const hasStopped = (page) => page.waitForFunction(() => document.querySelector('#send').textContent === 'Send');
const STREAM = '**/api/v1/chat/stream*';

describe('a prompt', () => {
  test('that was not sent goes back into the field, and is not sent by a reload', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await patch(page, { PAUSE_MS: 1 });
    await page.route('**/api/**', (route) => route.abort());
    await ask(page, 'What is 1+1?');
    await hasStopped(page);
    assert.equal(await page.locator('.question').count(), 0);
    assert.equal(await page.locator('.end.bad').textContent(), 'The gateway cannot be reached. Is it running? Your message may not have arrived.');
    assert.equal(await page.inputValue('#prompt'), 'What is 1+1?');
    assert.equal(await keptTurns(page), 0);
  });

  test('that was not sent leaves the question before it open', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, tools: { demo: true } });
    const { page, complaints } = await openPage(await startBrowser(t), gateway.origin);
    await patch(page, { PAUSE_MS: 1 });
    await ask(page, "Tell John I'm running late.");
    await page.locator('.end').waitFor();
    await page.route('**/api/**', (route) => route.abort());
    const question = page.locator('.question:not(.closed)');
    for (const attempt of [0, 1]) {
      await question.getByRole('button', { name: 'John Smith' }).click();
      await page.locator('.end.bad').nth(attempt).waitFor();
      await question.waitFor();
      assert.equal(await question.getByRole('button').count(), 3);
    }
    await page.unroute('**/api/**');
    await question.getByRole('button', { name: 'John Smith' }).click();
    await page.locator('.said').filter({ hasText: 'John Smith is sent' }).waitFor();
    assert.deepEqual(complaints.filter((complaint) => !/Failed to load resource/.test(complaint)), []);
  });

  test('that was refused goes back into the field', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await page.route(STREAM, (route) => route.fulfill({ status: 429, json: { error: { code: 'too_many_turns', message: 'too many turns' } } }));
    await ask(page, 'What is 1+1?');
    await page.locator('.end.bad').waitFor();
    assert.equal(await page.locator('.end.bad').textContent(), 'too many turns');
    assert.equal(await page.inputValue('#prompt'), 'What is 1+1?');
  });

  test('is not stopped by the second click of two', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await page.fill('#prompt', 'Count to 20');
    await page.dblclick('#send');
    await page.locator('.end').waitFor();
    assert.match(await page.locator('.end').textContent(), /^1 round/);
  });

  test('can be stopped while the gateway is away', async (t) => {
    const gateway = await startGateway(t);
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await page.route(STREAM, (route) => route.abort());
    await ask(page, 'What is 1+1?');
    await page.getByText('connection lost, re-joining').waitFor();
    await page.click('#send');
    await hasStopped(page);
    assert.equal(await page.inputValue('#prompt'), 'What is 1+1?');
    assert.equal(await keptTurns(page), 0);
  });

  test('is forgotten with its session, even if its answer comes late', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    const session = () => page.evaluate(() => JSON.parse(sessionStorage.getItem('tether')).session);
    await ask(page, 'Count to 150');
    const first = await session();
    // The last that the old page does is to note an answer of the gateway.
    await page.evaluate(() => { document.querySelector('#fresh').click(); keep(); }).catch(() => {});
    await page.waitForLoadState();
    assert.equal(await page.locator('.user').count(), 0);
    assert.notEqual(await session(), first);
  });
});

describe('a connection', () => {
  test('that is silent for too long is made again', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const proxy = await startProxy(t, gateway.port);
    const { page } = await openPage(await startBrowser(t), proxy.origin);
    await patch(page, { SILENCE_MS: 1000, STOP_MS: 60_000 });
    await ask(page, 'Count to 50');
    await page.locator('.said').filter({ hasText: '10, 11' }).waitFor();
    proxy.muteAll();
    await page.locator('.end').waitFor();
    assert.match(await page.locator('.said').textContent(), /^1, 2.*49, 50\.$/);
  });

  test('that is dead is made again after Stop, to hear how the turn ended', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const proxy = await startProxy(t, gateway.port);
    const { page } = await openPage(await startBrowser(t), proxy.origin);
    await patch(page, { STOP_MS: 300 });
    await ask(page, 'Count to 10000');
    await page.locator('.said').filter({ hasText: '10, 11' }).waitFor();
    proxy.muteAll();
    await page.click('#send');
    await page.locator('.end').waitFor();
    assert.match(await page.locator('.end').textContent(), /^cancelled/);
  });
});

describe('a key', () => {
  const locked = { tokensPerSec: AT_ONCE, server: { api_keys: ['open-sesame'] } };

  test('that is wrong is refused with a reason, and can be corrected', async (t) => {
    const gateway = await startGateway(t, locked);
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await ask(page, 'What is 1+1?');
    const dialog = page.locator('#locked[open]');
    await dialog.waitFor();
    for (const [key, complaint] of [['ключ', /only letters, digits/], ['open\u2011sesame', /only letters/], ['wrong', /does not accept this key/]]) {
      await page.fill('#key', key);
      await page.press('#key', 'Enter');
      await page.locator('#wrong').filter({ hasText: complaint }).waitFor();
      assert.ok(await dialog.isVisible());
      assert.deepEqual(await accessibilityProblems(page), []);
      assert.equal(await page.evaluate(() => sessionStorage.getItem('tether.key')), null);
    }
    await page.fill('#key', ' open-sesame ');
    await page.press('#key', 'Enter');
    await page.locator('.end:not(.bad)').waitFor();
    assert.match(await page.locator('.said').last().textContent(), /1\+1 = 2/);
  });

  test('is not asked for again once its user has said no', async (t) => {
    const gateway = await startGateway(t, locked);
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await ask(page, 'What is 1+1?');
    await page.locator('#locked[open]').waitFor();
    const looked = page.waitForResponse(/api\/v1\/sessions/);
    await page.click('#leave');
    await looked;
    await hasStopped(page);
    assert.equal(await page.locator('#locked[open]').count(), 0);
    assert.equal(await page.inputValue('#prompt'), 'What is 1+1?');
  });
});

test('a conversation that the gateway has lost is said to be gone', async (t) => {
  const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
  const { page } = await openPage(await startBrowser(t), gateway.origin);
  await ask(page, 'What is 1+1?');
  await page.locator('.end').waitFor();
  const { session } = await page.evaluate(() => JSON.parse(sessionStorage.getItem('tether')));
  await fetch(`${gateway.origin}/api/v1/sessions/${session}`, { method: 'DELETE' });
  await page.reload();
  await page.locator('.end.bad').waitFor();
  assert.match(await page.locator('.end.bad').textContent(), /no longer has this conversation/);
  await ask(page, 'What is 2+2?');
  await page.locator('.end:not(.bad)').waitFor();
});

test('a browser that stores nothing can chat', async (t) => {
  const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
  const { page, complaints } = await openPage(await startBrowser(t), gateway.origin);
  await page.addInitScript(() => {
    Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('denied', 'SecurityError'); } });
  });
  await page.reload();
  await ask(page, 'What is 1+1?');
  await page.locator('.end').waitFor();
  assert.deepEqual(complaints, []);
});
