// Questions of tools from outside, on the playground: forms, links, and calls to approve.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { accessibilityProblems, ask, openPage, startBrowser } from '../lib/browser.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { EVERYTHING, MISBEHAVING } from '../lib/mcp_servers.mjs';
import { call, startModel } from '../lib/model.mjs';

const SCREENSHOTS = fileURLToPath(new URL('../.cache/screenshots', import.meta.url));

const everything = { name: 'everything', command: [process.execPath, EVERYTHING], required: true };

/** A page whose model says these messages, with these tools. */
async function start(t, messages, tools) {
  const upstreams = [await startModel(t, messages)];
  const gateway = await startGateway(t, { upstreams, tools });
  const browser = await startBrowser(t);
  const { page, complaints } = await openPage(browser, gateway.origin);
  const askAndWait = async (prompt) => {
    await ask(page, prompt);
    await page.waitForSelector('.question:not(.closed)');
  };
  const picture = async (name) => {
    await mkdir(SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`), fullPage: true });
  };
  return { page, askAndWait, picture, complaints };
}

const results = (page) => page.locator('.call dd:last-of-type pre').allTextContents();

describe('questions on the page', () => {
  test('a form is shown with who asks, its defaults, and its fields', async (t) => {
    const messages = [call('everything__trigger-elicitation-request', {}), 'Thank you, Ada.'];
    const { page, askAndWait, picture, complaints } = await start(t, messages, { mcp: [everything] });
    await askAndWait('Ask me something.');
    assert.match(await page.locator('.question .asker').textContent(), /^everything, an MCP server, asks$/);
    const form = page.locator('.question form.fields');
    assert.equal(await form.getByLabel('String with default').inputValue(), 'It was a dark and stormy night.');
    assert.deepEqual(await accessibilityProblems(page), []);
    await picture('form');
    await form.getByLabel('String', { exact: false }).first().fill('Ada');
    await form.getByLabel('Boolean').check();
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.waitForFunction(() => document.body.textContent.includes('Thank you, Ada.'));
    const [result] = (await results(page)).slice(-1);
    assert.match(result, /Ada/);
    assert.match(result, /dark and stormy/);
    assert.match(await page.locator('.user').last().textContent(), /String: Ada/);
    assert.deepEqual(complaints, []);
  });

  test('fields that may be null, and lists of texts and numbers, can be filled in', async (t) => {
    const server = { name: 'odd', command: ['python3', MISBEHAVING, 'asks_oddly'], required: true };
    const { page, askAndWait, picture, complaints } = await start(t, [call('odd__odd', {}), 'Thank you.'], { mcp: [server] });
    await askAndWait('Act.');
    const form = page.locator('.question form.fields');
    const label = (name) => form.getByLabel(name, { exact: false });
    assert.deepEqual(await form.locator('select').last().locator('option').allTextContents(), ['', 'Small', 'm']);
    assert.deepEqual(await accessibilityProblems(page), []);

    await form.getByRole('button', { name: 'Answer' }).click();
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA', 'at least one tag');
    await label('tags').fill('first\n\n  last, but not least\n');
    await label('years').fill('1815\n1906');
    await label('floor').selectOption('2');
    await label('note').fill('Bring cake');
    await picture('odd-form');
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.waitForFunction(() => document.body.textContent.includes('Thank you.'));
    const [result] = (await results(page)).slice(-1);
    const content = { note: 'Bring cake', tags: ['first', 'last, but not least'], years: [1815, 1906], floor: 2 };
    assert.deepEqual(JSON.parse(result).data.content, content);
    assert.equal(await page.locator('.question :enabled').count(), 0);
    assert.deepEqual(complaints, []);
  });

  test('a form can be declined', async (t) => {
    const messages = [call('everything__trigger-elicitation-request', {}), 'As you like.'];
    const { page, askAndWait } = await start(t, messages, { mcp: [everything] });
    await askAndWait('Ask me something.');
    await page.locator('.question').getByRole('button', { name: 'Decline' }).click();
    await page.waitForFunction(() => document.body.textContent.includes('As you like.'));
    assert.match((await results(page)).at(-1), /declined/);
  });

  test('a link is shown with its host, and never opened by itself', async (t) => {
    const bad = { name: 'login', command: ['python3', MISBEHAVING, 'asks_page'], elicit_urls: true, required: true };
    const { page, askAndWait, picture } = await start(t, [call('login__odd', {}), 'Welcome.'], { mcp: [bad] });
    await askAndWait('Sign me in.');
    const link = page.locator('.question a.page');
    assert.equal(await link.getAttribute('href'), 'https://login.example.org/start?id=1');
    assert.match(await page.locator('.question h2').textContent(), /This leads to login\.example\.org/);
    assert.match(await link.getAttribute('rel'), /noopener/);
    await picture('link');
    await page.locator('.question').getByRole('button', { name: 'I will' }).click();
    await page.waitForFunction(() => document.body.textContent.includes('Welcome.'));
    assert.match((await results(page)).at(-1), /accept/);
  });

  test('a call of a server to approve is a question of Tether', async (t) => {
    const server = { ...everything, policy: { echo: { destructive: true } } };
    const { page, askAndWait } = await start(t, [call('everything__echo', { message: 'Hello' }), 'Done.'], { mcp: [server] });
    await askAndWait('Say hello.');
    const asker = await page.locator('.question .asker').textContent();
    assert.equal(asker, 'Tether asks before everything (an MCP server) runs everything__echo');
  });

  test('a call to approve is shown with its arguments and where it comes from', async (t) => {
    const erase = {
      name: 'erase', description: 'Erases a file.', command: ['echo', 'erased {file}'], policy: { destructive: true },
      parameters: { type: 'object', properties: { file: { type: 'string' } }, required: ['file'] },
    };
    const messages = [call('erase', { file: 'old.txt' }), 'It is gone.', call('erase', { file: 'new.txt' }), 'It stays.'];
    const { page, askAndWait, picture } = await start(t, messages, { command: [erase] });
    await askAndWait('Erase old.txt.');
    const question = page.locator('.question:not(.closed)');
    assert.match(await question.locator('.asker').textContent(), /^Tether asks before it runs erase \(a program\)$/);
    assert.match(await question.locator('pre').textContent(), /erase \{\s*"file": "old\.txt"\s*\}/);
    assert.deepEqual(await accessibilityProblems(page), []);
    await picture('approval');
    await question.locator('button[data-id=approve]').click();
    await page.waitForFunction(() => document.body.textContent.includes('It is gone.'));
    assert.match((await results(page)).at(-1), /erased old\.txt/);

    await askAndWait('Erase new.txt.');
    await page.locator('.question:not(.closed) button[data-id=deny]').click();
    await page.waitForFunction(() => document.body.textContent.includes('It stays.'));
    assert.ok((await results(page)).every((result) => !result.includes('erased new.txt')));
  });
});
