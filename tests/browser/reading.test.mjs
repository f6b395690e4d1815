// Reading on the playground while an answer grows.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { ask, openPage, startBrowser } from '../lib/browser.mjs';
import { AT_ONCE, startGateway } from '../lib/gateway.mjs';
import { startModel } from '../lib/model.mjs';

const VIEWPORT = { width: 800, height: 600 };

const fromEnd = (page) => page.evaluate(() => document.body.scrollHeight - innerHeight - scrollY);
const frame = (page) => page.evaluate(() => new Promise((next) => { requestAnimationFrame(() => requestAnimationFrame(next)); }));

describe('reading', () => {
  test('follows the end until the reader moves up, by however little, and again from the end on', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 200 });
    const { page } = await openPage(await startBrowser(t), gateway.origin, { viewport: VIEWPORT });
    await ask(page, 'Count to 1000');
    await page.waitForFunction(() => scrollY > 200);
    assert.ok(await fromEnd(page) < 60, 'it follows');
    await page.mouse.move(400, 300);
    for (let step = 0; step < 10; step += 1) {
      await page.mouse.wheel(0, -4);
      await frame(page);
    }
    const [top, length] = await page.evaluate(() => [scrollY, document.querySelector('.said').textContent.length]);
    await page.waitForFunction((least) => document.querySelector('.said').textContent.length > least, length + 400);
    assert.equal(await page.evaluate(() => scrollY), top, 'it stays');

    await page.mouse.wheel(0, 10_000);
    await frame(page);
    await page.waitForFunction((least) => scrollY > least + 100, top);
    assert.ok(await fromEnd(page) < 60, 'it follows again');

    await page.evaluate(() => scrollTo(0, 50));
    await page.click('#send');
    await page.locator('.end').waitFor();
    await frame(page);
    assert.equal(await page.evaluate(() => scrollY), 50, 'the end of the turn moves nobody');
  });

  test('a selection outlives the end of the turn', async (t) => {
    let finish;
    const holds = new Promise((resolve) => { finish = resolve; });
    const upstreams = [await startModel(t, [{ say: 'Please copy this sentence.\n\n', holds }])];
    const gateway = await startGateway(t, { upstreams });
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await ask(page, 'Say something.');
    await page.locator('.said').filter({ hasText: 'sentence.' }).waitFor();
    await page.evaluate(() => { const text = document.querySelector('.said').firstChild; getSelection().setBaseAndExtent(text, 7, text, 16); });
    finish();
    await page.locator('.end').waitFor();
    assert.equal(await page.evaluate(() => String(getSelection())), 'copy this');
    assert.equal(await page.locator('.said').textContent(), 'Please copy this sentence.');
  });

  test('a long answer does not freeze the page', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    // Its own stream: a model cannot be made to write exactly these events.
    const events = Array.from({ length: 6000 }, () => ({ type: 'text_delta', data: { text: 'lorem ipsum dolor ' } }));
    events.push({ type: 'turn_completed', data: { finish_reason: 'stop', loops: 1, tool_calls: 0, usage: { total_tokens: 0 }, text: '' } });
    const body = events.map((event, at) => `id: 1-${at + 1}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
    await page.route('**/api/v1/chat/stream', (route) => route.fulfill({ contentType: 'text/event-stream', body }));
    await page.evaluate(() => {
      globalThis.longest = 0;
      new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, duration); }).observe({ type: 'longtask' });
    });
    await ask(page, 'Say a lot.');
    await page.locator('.end').waitFor();
    // Some 100 ms, and minutes if each event asks for the layout.
    const longest = await page.evaluate(() => globalThis.longest);
    t.diagnostic(`the longest task took ${longest} ms`);
    assert.ok(longest < 5000, `${longest} ms`);
  });

  test('the field for a prompt grows with it', async (t) => {
    const gateway = await startGateway(t);
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    const height = () => page.locator('#prompt').evaluate(({ clientHeight }) => clientHeight);
    const one = await height();
    await page.fill('#prompt', 'one\ntwo\nthree');
    assert.ok(await height() >= one + 40);
    await page.fill('#prompt', '');
    assert.equal(await height(), one);
  });

  test('each paragraph has the direction of its language', async (t) => {
    const upstreams = [await startModel(t, ['مرحبا بالعالم!'])];
    const gateway = await startGateway(t, { upstreams });
    const { page } = await openPage(await startBrowser(t), gateway.origin);
    await ask(page, 'Say hello.');
    await page.locator('.end').waitFor();
    const right = await page.locator('.said').evaluate((said) => {
      const range = document.createRange();
      range.selectNodeContents(said);
      return said.getBoundingClientRect().right - range.getBoundingClientRect().right;
    });
    assert.ok(Math.abs(right) < 2, `${right} px off`);
  });

  test('shows earlier turns again after a reload, or says how many it does not show', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
    const { page, complaints } = await openPage(await startBrowser(t), gateway.origin);
    const prompts = [1, 2, 3, 4, 5, 6].map((number) => `What is ${number}+100?`);
    for (const [at, prompt] of prompts.entries()) {
      await ask(page, prompt);
      await page.locator('.end').nth(at).waitFor();
    }
    const shown = () => page.locator('#log :is(.user, .said, .call b)').allTextContents();
    const before = await shown();
    await page.reload();
    await page.locator('.user').nth(5).waitFor();
    await page.locator('.end').nth(3).waitFor();
    assert.deepEqual(await shown(), before);
    assert.equal(await page.locator('.call.good').count(), 6);
    assert.deepEqual(complaints, []);

    await page.route(/api\/v1\/sessions/, (route) => route.abort());
    await page.reload();
    await page.locator('.end').nth(3).waitFor();
    assert.equal(await page.locator('#log .status').first().textContent(), '2 earlier turns of this session not shown');
    assert.deepEqual(await page.locator('.user').allTextContents(), prompts.slice(2));
  });
});
