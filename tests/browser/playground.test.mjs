// The playground as a person uses it. Its pictures are in tests/.cache/screenshots.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { accessibilityProblems, ask, openPage, startBrowser } from '../lib/browser.mjs';
import { AT_ONCE, startGateway } from '../lib/gateway.mjs';
import { startProxy } from '../lib/proxy.mjs';
import { SEED, random } from '../lib/random.mjs';

const SCREENSHOTS = fileURLToPath(new URL('../.cache/screenshots', import.meta.url));
const PROMPT = 'What time is it in Tokyo, and what is 12*7?';
const RUNNING_LATE = "Tell John I'm running late.";
const JOHNS = ['John Doe\nAcme Tools, Boston', 'John Smith\nHarbour Books, Bristol', 'John Carter\nRed Sand Travel, Richmond'];
const COUNTED = Array.from({ length: 150 }, (_, index) => index + 1).join(', ');

/** Loads the page again with hardly a pause between its tries to re-join a turn. */
async function hurry(page) {
  await page.route(page.url(), async (route) => {
    const response = await route.fetch();
    const body = await response.text();
    assert.match(body, /PAUSE_MS = 250;/);
    await route.fulfill({ response, body: body.replace('PAUSE_MS = 250;', 'PAUSE_MS = 1;') });
  });
  await page.reload();
}

const said = async (page) => (await page.locator('.said').allTextContents()).join('\n');

describe('the playground', () => {
  test('shows both calls and the answer, and sends no request elsewhere', async (t) => {
    const gateway = await startGateway(t);
    const browser = await startBrowser(t);
    const { page, complaints, requests } = await openPage(browser, gateway.origin);

    await ask(page, PROMPT);
    await page.waitForSelector('.end');

    assert.deepEqual(await page.locator('.call.good b').allTextContents(), ['get_current_time', 'calculate']);
    assert.equal(await page.locator('.call:not(.good)').count(), 0);
    assert.match(await said(page), /Asia\/Tokyo.*12\*7 = 84/s);
    assert.equal(await page.locator('#send').textContent(), 'Send');
    assert.deepEqual(complaints, []);
    const foreign = requests.filter((url) => !url.startsWith(gateway.origin) && !url.startsWith('data:'));
    assert.deepEqual(foreign, []);
  });

  test('shows a mistake and its recovery', async (t) => {
    const gateway = await startGateway(t);
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);

    await ask(page, 'Try a wrong tool for the time in Paris.');
    await page.waitForSelector('.end');

    assert.equal(await page.locator('.call.bad .state').textContent(), 'tool not found');
    assert.equal(await page.locator('.call.good b').textContent(), 'get_current_time');
  });

  test('loses and repeats nothing when its connections break', async (t) => {
    t.diagnostic(`TEST_SEED=${SEED}`);
    const next = random();
    // Early ones: on a busy machine tokens share frames, and the stream is shorter.
    const cuts = Array.from({ length: 4 }, () => next(1, 1000));
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const proxy = await startProxy(t, gateway.port, cuts);
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, proxy.origin);

    await ask(page, 'Count to 150');
    await page.locator('.said').filter({ hasText: '100, 101' }).waitFor();
    assert.equal(proxy.cut, cuts.length, 'every cut has happened');
    assert.match(await page.locator('#about').textContent(), /^\S+ · session [0-9a-f]{8}$/);
    await page.waitForSelector('.end');

    assert.equal(await said(page), `${COUNTED}.`);
    assert.equal(await page.locator('.end').count(), 1);
  });

  test('follows a turn again once the browser is online', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const proxy = await startProxy(t, gateway.port);
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, proxy.origin);
    await hurry(page);

    await ask(page, 'Count to 150');
    await page.locator('.said').filter({ hasText: '10, 11' }).waitFor();
    await page.context().setOffline(true);
    proxy.breakAll();
    const rejoin = page.getByRole('button', { name: 'Re-join' });
    await rejoin.waitFor();
    assert.equal(await page.locator('#about').textContent(), 'connection lost');
    assert.deepEqual(await accessibilityProblems(page), []);
    await page.context().setOffline(false);
    await page.waitForSelector('.end');

    assert.equal(await rejoin.count(), 0);
    assert.equal(await said(page), `${COUNTED}.`);
    assert.match(await page.locator('#about').textContent(), /session/);
  });

  test('follows a turn again if its user says so, and can give it up', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const proxy = await startProxy(t, gateway.port, [2000, 2000]);
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, proxy.origin);
    await hurry(page);
    await page.route(/stream\?/, (route) => route.abort());

    await ask(page, 'Count to 150');
    const rejoin = page.getByRole('button', { name: 'Re-join' });
    await rejoin.focus();
    await page.unroute(/stream\?/);
    await page.keyboard.press('Enter');
    await page.locator('.end').waitFor();
    assert.equal(proxy.cut, 2);
    assert.equal(await said(page), `${COUNTED}.`);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');

    await page.route(/stream\?/, (route) => route.abort());
    await page.evaluate(() => { sessionStorage.removeItem('tether'); });
    await page.reload();
    await ask(page, 'Count to 10000');
    await page.locator('.said').filter({ hasText: '10, 11' }).waitFor();
    proxy.breakAll();
    await rejoin.waitFor();
    await page.click('#send');
    await page.locator('.end.bad').waitFor();
    assert.equal(await rejoin.count(), 0);
    assert.equal(await page.locator('#send').textContent(), 'Send');
  });

  test('sends long prompts, and remembers as many turns as the browser has room for', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
    const browser = await startBrowser(t);
    const { page, complaints } = await openPage(browser, gateway.origin);

    // In bytes, twice as long: more than browsers send once a page is left.
    const long = 'é'.repeat(40_000);
    await ask(page, long);
    await page.locator('.end:not(.bad)').waitFor();
    const longest = 'e'.repeat(1_000_000);
    for (const turns of [2, 3, 4]) {
      await ask(page, longest);
      await page.locator('.end:not(.bad)').nth(turns - 1).waitFor();
    }
    const { turns } = await page.evaluate(() => JSON.parse(sessionStorage.getItem('tether')));
    assert.equal(turns.at(-1).prompt, longest);
    assert.deepEqual(complaints, []);
  });

  test('opens a long line of the events by keyboard', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);
    await ask(page, PROMPT);
    await page.waitForSelector('.end');
    await page.click('#toggle');
    const lines = page.locator('#rows li');
    const [last, before] = [lines.last(), lines.nth(-2)];
    const isCut = (line) => line.evaluate((it) => it.scrollWidth > it.clientWidth);
    assert.ok(await isCut(last));

    await page.focus('#rows');
    await page.keyboard.press('ArrowUp');
    assert.ok(!await isCut(last));
    await page.keyboard.press('ArrowUp');
    assert.ok(await before.evaluate((it) => it === document.activeElement));
    assert.ok(await isCut(last), 'one at a time');
    await page.keyboard.press('ArrowDown');
    assert.ok(await last.evaluate((it) => it === document.activeElement));
    assert.deepEqual(await accessibilityProblems(page), []);
  });

  test('continues a turn after a reload', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);

    await ask(page, 'Count to 150');
    await page.getByText('10, 11').waitFor();
    await page.reload();
    await page.waitForSelector('.end');

    assert.deepEqual(await page.locator('.user').allTextContents(), ['Count to 150']);
    assert.equal(await said(page), `${COUNTED}.`);
  });

  test('stops a turn', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: 40 });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);

    await ask(page, 'Count to 10000');
    await page.getByText('3, 4').waitFor();
    await page.click('#send');

    assert.match(await page.locator('.end').textContent(), /^cancelled/);
  });

  test('asks with a button for each option, and the answer goes to the one chosen', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, tools: { demo: true, execution: 'after_turn' } });
    const browser = await startBrowser(t);
    const { page, complaints } = await openPage(browser, gateway.origin);

    await ask(page, RUNNING_LATE);
    await page.waitForSelector('.end');
    const question = page.getByRole('group', { name: 'Which John do you mean?' });
    assert.deepEqual(await question.getByRole('button').allInnerTexts(), JOHNS);
    assert.equal(await question.getByRole('textbox').count(), 0, 'it takes no text');
    assert.match((await page.locator('.call .state').allTextContents()).join(), /^asks · \d+ ms,not run$/);
    assert.match(await page.locator('.status').textContent(), /^send_message was not run: .* needs the user's answer first$/);

    // By keyboard alone: the first option has the focus.
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('.end').nth(1).waitFor();

    assert.match(await said(page), /Done: the message to John Smith is sent\./);
    assert.equal(await question.getByRole('button', { pressed: true }).innerText(), JOHNS[1]);
    assert.equal(await question.locator('button:enabled').count(), 0);
    assert.deepEqual(await page.locator('.user').allTextContents(), [RUNNING_LATE, 'John Smith']);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
    assert.deepEqual(complaints, []);
  });

  test('has a text field if the question takes text', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);
    // No demonstration tool asks for words, so the stream is the test's own.
    const asked = { clarification_id: 'q.1', call_id: 'call_1', tool_name: 'pick_day', type: 'text', question: 'Which day?', options: [] };
    const events = [
      { type: 'clarification_needed', data: asked },
      { type: 'turn_completed', data: { finish_reason: 'clarification_needed', loops: 1, tool_calls: 1, usage: { total_tokens: 0 }, text: '' } },
    ];
    const body = events.map((event, at) => `id: 1-${at + 1}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
    const sent = [];
    await page.route('**/api/v1/chat/stream', (route) => {
      sent.push(route.request().postDataJSON());
      return route.fulfill({ contentType: 'text/event-stream', body });
    });

    await ask(page, 'Make an appointment.');
    const field = page.getByRole('textbox', { name: 'Which day?' });
    await field.waitFor();
    await page.keyboard.type('the day after');
    await page.keyboard.press('Enter');
    await page.locator('.end').nth(1).waitFor();

    assert.deepEqual(sent[1].clarification_response, { clarification_id: 'q.1', text: 'the day after' });
    assert.equal(sent[1].prompt, undefined);
    assert.equal(await page.locator('.question.closed input').inputValue(), 'the day after');
  });

  test('shows the open question again after a reload, even if its turn is gone', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, tools: { demo: true } });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);
    const options = page.locator('.question:not(.closed) button');

    await ask(page, RUNNING_LATE);
    await options.nth(2).waitFor();
    await page.reload();
    await options.nth(2).waitFor();
    assert.equal(await page.locator('.question').count(), 1);

    // Of the turn nothing can be read any more; of the session it can.
    await page.route(/stream\?/, (route) => route.fulfill({ status: 410, json: { error: { code: 'gone', message: 'gone' } } }));
    await page.reload();
    await options.nth(2).waitFor();
    assert.equal(await said(page), 'Let me find John and pass that on.');
    assert.equal(await page.locator('.end.bad').count(), 0);
    await page.unroute(/stream\?/);
    await options.filter({ hasText: 'John Carter' }).click();
    await page.locator('.said').filter({ hasText: 'John Carter is sent' }).waitFor();
    await page.reload();
    await page.locator('.said').filter({ hasText: 'John Carter is sent' }).waitFor();
    assert.equal(await page.locator('.question:not(.closed)').count(), 0);
  });

  test('an answer that comes too late is refused, and something else can be asked instead', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, tools: { demo: true } });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);

    await ask(page, RUNNING_LATE);
    const options = page.locator('.question:not(.closed) button');
    await options.first().waitFor();
    // Another client of the same session has dropped the question.
    const { session } = await page.evaluate(() => JSON.parse(sessionStorage.getItem('tether')));
    const elsewhere = await fetch(`${gateway.origin}/api/v1/chat/stream`, {
      method: 'POST', body: JSON.stringify({ session_id: session, prompt: 'What is 12*7?' }),
    });
    await elsewhere.text();
    await options.first().click();
    await page.locator('.end.bad').waitFor();
    assert.match(await page.locator('.end.bad').textContent(), /no longer open/);

    await ask(page, RUNNING_LATE);
    await options.first().waitFor();
    await ask(page, PROMPT);
    await page.locator('.call.good b').filter({ hasText: 'calculate' }).waitFor();
    assert.equal(await page.locator('.question:not(.closed)').count(), 0);
  });

  test('asks for a key if the gateway requires one, and then lists its tools', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, server: { api_keys: ['open-sesame'] } });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);
    await page.getByText('listed once you have entered an API key').waitFor();
    assert.match(await page.locator('#shell').textContent(), / -H 'Authorization: Bearer KEY' -d /);

    await ask(page, PROMPT);
    await page.fill('#key', 'open-sesame');
    await page.press('#key', 'Enter');

    await page.waitForSelector('.call.good');
    await page.locator('#tools code').filter({ hasText: 'calculate' }).waitFor({ state: 'attached' });
    await page.click('#fresh');
    await page.locator('#tools code').filter({ hasText: 'calculate' }).waitFor();
    assert.match(await page.locator('#shell').textContent(), / -H 'Authorization: Bearer KEY' -d /);
  });

  for (const colorScheme of ['light', 'dark']) {
    for (const [device, viewport] of [['desktop', { width: 1280, height: 800 }], ['phone', { width: 390, height: 844 }]]) {
      test(`is accessible, ${colorScheme}, on a ${device}`, async (t) => {
        const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, tools: { demo: true } });
        const browser = await startBrowser(t);
        const { page } = await openPage(browser, gateway.origin, { colorScheme, viewport });
        await mkdir(SCREENSHOTS, { recursive: true });
        const check = async (state) => {
          const name = `${state}-${colorScheme}-${device}`;
          await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
          assert.deepEqual(await accessibilityProblems(page), [], name);
          const tooWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
          assert.ok(!tooWide, `${name} needs no scrolling sideways`);
        };

        await page.locator('#tools code').first().waitFor();
        await check('welcome');
        await ask(page, 'Think aloud: what time is it in Tokyo, and what is 12*7?');
        await page.waitForSelector('.end');
        await ask(page, 'Try a wrong tool for the time in Paris.');
        await page.locator('.end').nth(1).waitFor();
        await page.locator('.call summary').last().click();
        await check('answered');
        await page.click('#toggle');
        await check('events');
        await page.click('#toggle');
        await ask(page, RUNNING_LATE);
        await page.locator('.question').waitFor();
        await page.locator('.end').nth(2).waitFor();
        await check('asked');
        await page.locator('.question button').nth(1).click();
        await page.locator('.end').nth(3).waitFor();
        await check('chosen');
      });
    }
  }
});
