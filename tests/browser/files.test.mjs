// Files that tools return, on the playground.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { accessibilityProblems, ask, openPage, startBrowser } from '../lib/browser.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { EVERYTHING, MISBEHAVING } from '../lib/mcp_servers.mjs';
import { call, startModel } from '../lib/model.mjs';

const SCREENSHOT = fileURLToPath(new URL('../.cache/screenshots/image.png', import.meta.url));

test('an image is shown below its call, and any other file can be saved', async (t) => {
  const messages = [
    call('everything__get-tiny-image', {}) + call('everything__get-resource-reference', { resourceType: 'Blob', resourceId: 1 }),
    'That is the logo.',
  ];
  const upstreams = [await startModel(t, messages)];
  const mcp = [{ name: 'everything', command: [process.execPath, EVERYTHING], required: true }];
  const gateway = await startGateway(t, { upstreams, tools: { mcp } });
  const browser = await startBrowser(t);
  const { page, complaints } = await openPage(browser, gateway.origin);
  await ask(page, 'Show me the logo.');
  const image = page.locator('.file img');
  await image.waitFor();
  await page.waitForFunction(() => document.querySelector('.file img').naturalWidth > 0);
  assert.match(await image.getAttribute('alt'), /^image, image\/png, \d+ KiB$/);
  await page.waitForFunction(() => document.body.textContent.includes('That is the logo.'));
  await page.waitForFunction(() => document.querySelectorAll('.file a').length === 2);
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('.file a').last().click()]);
  assert.match(download.suggestedFilename(), /^1(\.txt)?$/);
  assert.match(await page.locator('.file a').first().getAttribute('download'), /^image-[0-9a-f]{8}\.png$/);
  assert.deepEqual(await accessibilityProblems(page), []);
  assert.deepEqual(complaints, []);
  await page.screenshot({ path: SCREENSHOT, fullPage: true });
});

test('a file with scripts is never a page of this origin', async (t) => {
  const upstreams = [await startModel(t, [call('bad__odd', {}), 'Have a look.'])];
  const mcp = [{ name: 'bad', command: ['python3', MISBEHAVING, 'draws_scripts'], required: true }];
  const gateway = await startGateway(t, { upstreams, tools: { mcp } });
  const browser = await startBrowser(t);
  const { page } = await openPage(browser, gateway.origin);
  await ask(page, 'Show me.');
  const links = page.locator('.file a');
  await links.nth(1).waitFor();
  assert.equal(await page.locator('.file img').count(), 0);
  assert.match((await links.allTextContents()).join(), /image\/svg\+xml.*text\/html/);
  for (const link of await links.all()) {
    // As the browser's "open in a new tab" does.
    await Promise.all([page.waitForEvent('download'), link.evaluate(({ href }) => { window.open(href); })]);
  }
});

test('what a tool calls artifacts is not fetched, and does not stall the page', async (t) => {
  const id = '0'.repeat(32);
  const foreign = [{ a: 1 }, 'a vase', [null, 7, { id: '../sessions/s', url: '/' }, { id: [id], url: '/' }, { id: `${id}\n` }]];
  const calls = foreign.map((artifacts) => call('bad__echo', { text: JSON.stringify({ artifacts }) }));
  const upstreams = [await startModel(t, [calls.join(''), 'That is all.'])];
  const mcp = [{ name: 'bad', command: ['python3', MISBEHAVING, 'echoes'], required: true }];
  const gateway = await startGateway(t, { upstreams, tools: { mcp } });
  const browser = await startBrowser(t);
  const { page, complaints } = await openPage(browser, gateway.origin);
  await ask(page, 'Show me.');
  await page.waitForFunction(() => document.querySelector('.end') && document.body.textContent.includes('That is all.'));
  assert.equal(await page.locator('.file').count(), 0);
  assert.deepEqual(complaints, []);
});
