// The playground as a person uses it. Its pictures are in tests/.cache/screenshots.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { accessibilityProblems, openPage, startBrowser } from '../lib/browser.mjs';
import { AT_ONCE, startGateway } from '../lib/gateway.mjs';
import { startProxy } from '../lib/proxy.mjs';
import { SEED, random } from '../lib/random.mjs';

const SCREENSHOTS = fileURLToPath(new URL('../.cache/screenshots', import.meta.url));
const PROMPT = 'What time is it in Tokyo, and what is 12*7?';
const COUNTED = Array.from({ length: 150 }, (_, index) => index + 1).join(', ');

async function ask(page, prompt) {
  await page.fill('#prompt', prompt);
  await page.press('#prompt', 'Enter');
}

const said = async (page) => (await page.locator('.said').allTextContents()).join('\n');

describe('the playground', () => {
  test('shows both calls done and the answer, and asks nobody else for anything', async (t) => {
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

  test('loses nothing and doubles nothing when its connections break', async (t) => {
    t.diagnostic(`TEST_SEED=${SEED}`);
    const next = random();
    // Early ones: on a busy machine tokens share frames, and the stream is shorter.
    const cuts = Array.from({ length: 4 }, () => next(1, 1000));
    const gateway = await startGateway(t, { tokensPerSec: 100 });
    const proxy = await startProxy(t, gateway.port, cuts);
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, proxy.origin);

    await ask(page, 'Count to 150');
    await page.waitForSelector('.end');

    assert.equal(proxy.cut, cuts.length, 'every cut has happened');
    assert.equal(await said(page), `${COUNTED}.`);
    assert.equal(await page.locator('.end').count(), 1);
  });

  test('goes on with a turn after a reload', async (t) => {
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

  test('asks for a key where the gateway wants one', async (t) => {
    const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, server: { api_keys: ['open-sesame'] } });
    const browser = await startBrowser(t);
    const { page } = await openPage(browser, gateway.origin);

    await ask(page, PROMPT);
    await page.fill('#key', 'open-sesame');
    await page.press('#key', 'Enter');

    await page.waitForSelector('.call.good');
  });

  for (const colorScheme of ['light', 'dark']) {
    for (const [device, viewport] of [['desktop', { width: 1280, height: 800 }], ['phone', { width: 390, height: 844 }]]) {
      test(`is accessible, ${colorScheme}, on a ${device}`, async (t) => {
        const gateway = await startGateway(t, { tokensPerSec: AT_ONCE });
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
      });
    }
  }
});
