// Headless Chromium for tests: a fresh profile each, and no word to the outside.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Starts a browser that lives as long as the test `t`. */
export async function startBrowser(t) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? 'chromium',
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync',
    ],
  });
  t.after(() => browser.close());
  return browser;
}

/** Opens a page; what it complains about and asks for is noted in `complaints` and `requests`. */
export async function openPage(browser, url, options = {}) {
  const page = await browser.newPage(options);
  const notes = { complaints: [], requests: [] };
  page.on('pageerror', (error) => notes.complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') notes.complaints.push(message.text());
  });
  page.on('request', (request) => notes.requests.push(request.url()));
  await page.goto(url);
  return Object.assign(notes, { page });
}

/** Sends a prompt on the playground. */
export async function ask(page, prompt) {
  await page.fill('#prompt', prompt);
  await page.press('#prompt', 'Enter');
}

/** What keeps people with assistive technology out (WCAG 2.2, levels A and AA). */
export async function accessibilityProblems(page) {
  // Evaluated by the driver: the page's own policy does not allow foreign scripts.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}
