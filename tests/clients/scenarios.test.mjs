// Every client with every scenario, in every way that it can be used.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, describe, test } from 'node:test';

import { CLIENTS } from './table/clients.mjs';
import { play, suits } from './table/play.mjs';
import { endPython } from './table/python.mjs';
import { SCENARIOS } from './table/scenarios.mjs';

const DOCS = new URL('../../docs/clients.md', import.meta.url);

/** Other ways for an API to show server tools, and what then comes out. */
const SERVER_TOOLS = {
  'Chat Completions': [['chat', 'reasoning', { reasoning: /calculate/ }], ['chat', 'extension', {}]],
  Responses: [['responses', 'hidden', { ours: [] }]],
  Messages: [['messages', 'hidden', { ours: [] }]],
};

// Many times what one takes, also where others compile; whatever waits for ever is known by then.
const timeout = 60_000;

after(endPython);

describe('clients', { concurrency: 4 }, () => {
  for (const client of CLIENTS) {
    for (const [name, way] of Object.entries(client.ways)) {
      const title = `${client.name}, ${client.api}, ${name}`;
      for (const scenario of Object.keys(SCENARIOS).filter((each) => suits(way, each))) {
        test(`${title}: ${scenario}`, { timeout }, (t) => play(t, client, name, scenario));
      }
      for (const [section, server_tools, outcome] of SERVER_TOOLS[client.api] ?? []) {
        const changes = { sections: { [section]: { server_tools } }, ...outcome };
        test(`${title}: a server tool, ${section}.server_tools: ${server_tools}`, { timeout }, (t) => (
          play(t, client, name, 'a server tool', changes)
        ));
      }
    }
  }
});

/** What the documentation says of a client and a scenario. */
function cell({ shows, ways }, scenario) {
  const played = Object.values(ways).filter((way) => suits(way, scenario));
  if (played.length === 0) return '';
  if (scenario === 'reasoning' && !shows.reasoning) return '–';
  const raising = played.filter(({ raises }) => raises?.[scenario]).length;
  return raising === 0 ? '✓' : raising < played.length ? '✓ !' : '!';
}

test('docs/clients.md has the table of these tests', async () => {
  const scenarios = Object.keys(SCENARIOS);
  const rows = CLIENTS.map((client) => [client.name, client.api, ...scenarios.map((each) => cell(client, each))]);
  const lines = [['client', 'API', ...scenarios], Array(scenarios.length + 2).fill('---'), ...rows];
  const table = lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('');
  assert.ok((await readFile(DOCS, 'utf8')).includes(table), `it should have\n\n${table}`);
});
