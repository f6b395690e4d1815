// The page of `examples/react`, as its reader builds it.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

import { openPage, startBrowser } from '../lib/browser.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const EXAMPLE = fileURLToPath(new URL('../../examples/react/', import.meta.url));
const PACKAGES = fileURLToPath(new URL('../node_modules', import.meta.url));

/** Serves the page as esbuild makes it, and opens it before a gateway whose model says these messages. */
async function start(t, messages) {
  const { outputFiles: [{ contents }] } = await build({
    entryPoints: [`${EXAMPLE}chat.jsx`], bundle: true, jsx: 'automatic', write: false, nodePaths: [PACKAGES],
  });
  const html = await readFile(`${EXAMPLE}index.html`);
  const server = createServer(({ url }, answer) => {
    const isScript = url.startsWith('/build/chat.js');
    answer.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' });
    answer.end(isScript ? contents : html);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.close(); server.closeAllConnections(); });
  const origin = `http://127.0.0.1:${server.address().port}`;

  const upstreams = [await startModel(t, messages)];
  const config = { upstreams, tools: { demo: true }, server: { cors_origins: [origin] } };
  const gateway = await startGateway(t, config);
  const browser = await startBrowser(t);
  const { page, complaints } = await openPage(browser, `${origin}/?gateway=${gateway.origin}`);
  const ask = async (words) => {
    await page.getByLabel('Message').fill(words);
    await page.getByRole('button', { name: 'Send' }).click();
  };
  return { page, ask, complaints };
}

test('a tool and the answer are shown', async (t) => {
  const { page, ask, complaints } = await start(t, [call('calculate', { expression: '6*7' }), 'It is 42.']);
  await ask('What is 6*7?');
  await page.getByText('It is 42.').waitFor();
  await page.getByText('calculate: output-available').waitFor();
  assert.deepEqual(complaints, []);
});

test('a question is answered by its button', async (t) => {
  const { page, ask, complaints } = await start(t, [call('lookup_contacts', { name: 'John' }), 'You mean John Doe.']);
  await ask('Who is John?');
  await page.getByRole('button', { name: 'John Doe' }).click();
  await page.getByText('You mean John Doe.').waitFor();
  assert.deepEqual(complaints, []);
});

test('a page that is loaded again shows the rest of the answer', async (t) => {
  let goOn;
  const holds = new Promise((resolve) => { goOn = resolve; });
  const { page, ask } = await start(t, [call('calculate', { expression: '6*7' }), { say: 'It is 42.', holds }]);
  await ask('What is 6*7?');
  await page.getByText('calculate: output-available').waitFor();
  await page.reload();
  goOn();
  await page.getByText('It is 42.').waitFor();
  assert.equal(await page.getByText('It is 42.').count(), 1);
});
