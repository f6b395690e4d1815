// Calls to approve, on the playground: nothing runs that its user has not seen and meant.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { ask, openPage, startBrowser } from '../lib/browser.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const ERASE = {
  name: 'erase', description: 'Erases a file.', command: ['echo', 'erased {file}'], policy: { destructive: true },
  parameters: { type: 'object', properties: { file: { type: 'string' }, pad: { type: 'string' } }, required: ['file'] },
};
// In an event, each of these characters takes six bytes: together too many for a frame.
const LONG = { file: 'old.txt', pad: '\u2028'.repeat(15_000) };

/** A page with the question whether `erase` may run with these arguments. */
async function asked(t, args, prepare = () => {}) {
  const upstreams = [await startModel(t, [call('erase', args), 'All done.'])];
  const gateway = await startGateway(t, { upstreams, tools: { command: [ERASE] } });
  const { page } = await openPage(await startBrowser(t), gateway.origin);
  await prepare(page);
  await ask(page, 'Tidy up.');
  const question = page.locator('.question:not(.closed)');
  await question.waitFor();
  return { page, question };
}

describe('a call to approve', () => {
  test('that is too long for its event is shown as the session has it', async (t) => {
    const { question } = await asked(t, LONG);
    assert.equal(await question.locator('.asker').textContent(), 'Tether asks before it runs erase (a program)');
    assert.match(await question.locator('pre').textContent(), /"file": "old\.txt",\s+"pad": "(\\u2028){15000}"/);
  });

  test('whose arguments cannot be loaded can only be denied', async (t) => {
    const { page, question } = await asked(t, LONG, (page) => page.route(/api\/v1\/sessions/, (route) => route.abort()));
    assert.equal(await question.locator('.asker').textContent(), 'Tether asks before it runs erase (a program)');
    assert.deepEqual(await question.locator('button').evaluateAll((buttons) => buttons.map(({ dataset }) => dataset.id)), ['deny']);
    await question.locator('button').click();
    await page.locator('.said').filter({ hasText: 'All done.' }).waitFor();
    assert.equal(await page.locator('.call.good').count(), 0);
  });

  test('is not approved by whoever types on, even after a reload', async (t) => {
    const { page, question } = await asked(t, { file: 'old.txt' });
    for (const reload of [false, true]) {
      if (reload) await page.reload();
      await question.waitFor();
      assert.equal(await question.locator('button:enabled').count(), 0, 'nothing can be pressed at first');
      await page.keyboard.type('no wait');
      await page.keyboard.press('Space');
      await question.locator('button:enabled').first().waitFor();
      assert.equal(await page.inputValue('#prompt'), 'no wait ');
      await page.fill('#prompt', '');
      await page.keyboard.press('Enter');
    }
    assert.deepEqual(await page.locator('.user').allTextContents(), ['Tidy up.']);
  });

  test('hides nothing in characters that are not seen', async (t) => {
    const { question } = await asked(t, { file: 'a\u202e\u200b\u{e0041}\ufe0fb' });
    assert.ok((await question.locator('pre').textContent()).includes(String.raw`"a\u202e\u200b\udb40\udc41\ufe0fb"`));
  });

  test('has its name on its card', async (t) => {
    const { page } = await asked(t, { file: 'old.txt' });
    assert.deepEqual(await page.locator('.call summary').allInnerTexts(), ['erase\nfile: "old.txt"\nneeds approval']);
  });
});
