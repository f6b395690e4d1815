// How the page shows events that the tests' models and tools cannot produce at will.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ask, openPage, startBrowser } from '../lib/browser.mjs';
import { startGateway } from '../lib/gateway.mjs';

/** A page that has read these events; with the requests that it then begins turns with. */
async function shown(t, events, options) {
  const gateway = await startGateway(t);
  const { page } = await openPage(await startBrowser(t), gateway.origin, options);
  const sent = [];
  const ended = { finish_reason: 'stop', loops: 1, tool_calls: 0, usage: { total_tokens: 0 }, text: '' };
  const all = [...events, ['turn_completed', ended]];
  const body = all.map(([type, data], at) => `id: 1-${at + 1}\nevent: ${type}\ndata: ${JSON.stringify({ type, data })}\n\n`).join('');
  await page.route('**/api/v1/chat/stream', (route) => {
    sent.push(route.request().postDataJSON());
    return route.fulfill({ contentType: 'text/event-stream', body });
  });
  await ask(page, 'Go.');
  await page.locator('.end').waitFor();
  return { page, sent };
}

function form(properties) {
  const schema = { type: 'object', properties };
  return ['clarification_needed', { clarification_id: 'q.1', call_id: 'call_1', tool_name: 'book', type: 'form', question: 'Which one?', options: [], schema }];
}

test('a word that another gateway goes on with stays whole', async (t) => {
  const { page } = await shown(t, [
    ['text_delta', { text: 'We count' }],
    ['status', { message: 'another gateway goes on with the turn' }],
    ['text_delta', { text: 'ed to ten.' }],
    ['text_delta', { loop: 2, text: 'Then we rested.' }],
  ]);
  assert.deepEqual(await page.locator('.said').allTextContents(), ['We counted to ten.', 'Then we rested.']);
});

test('arguments and results that were shortened are said to be', async (t) => {
  const { page } = await shown(t, [
    ['tool_started', { call_id: 'call_1', tool_name: 'read', tool_args: null, tool_args_truncated: 90_000, loop: 1 }],
    ['tool_completed', { call_id: 'call_1', tool_name: 'read', tool_result: { success: true, data: 'The begin' }, tool_result_truncated: 70_000, duration_ms: 1, attempts: 1 }],
  ]);
  const [args, result] = await page.locator('.call pre').allTextContents();
  assert.equal(args, 'too long to be shown: 90,000 bytes');
  assert.match(result, /shortened; the whole result has 70,000 bytes$/);
});

test('a form is read from its question on, however long it is', async (t) => {
  const properties = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`field ${at}`, { type: 'string' }]));
  const { page } = await shown(t, [form(properties)], { viewport: { width: 1280, height: 600 } });
  await page.waitForFunction(() => scrollY > 0);
  const { header, question, field, window } = await page.evaluate(() => ({
    header: document.querySelector('header').getBoundingClientRect().bottom,
    question: document.querySelector('.question h2').getBoundingClientRect().top,
    field: document.activeElement.getBoundingClientRect().bottom,
    window: innerHeight,
  }));
  assert.ok(header <= question && question < field && field < window, `${header} ${question} ${field} ${window}`);
});

test('the default of a time is shown in the zone of its user', async (t) => {
  const { page, sent } = await shown(t, [form({ when: { type: 'string', format: 'date-time', default: '2026-12-24T18:30:00Z' } })], { timezoneId: 'Europe/Berlin' });
  assert.equal(await page.locator('.question input').inputValue(), '2026-12-24T19:30');
  await page.locator('.question').getByRole('button', { name: 'Answer' }).click();
  await page.locator('.end').nth(1).waitFor();
  assert.deepEqual(sent[1].clarification_response.content, { when: '2026-12-24T18:30:00.000Z' });
});
