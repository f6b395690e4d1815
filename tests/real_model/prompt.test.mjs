// What prompts cost, counted by a real tokenizer: docs/prompting.md tells no other figures.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { startLlama } from './llama.mjs';

const PROMPTS = new URL('../data/prompts/', import.meta.url);
const PAGE = new URL('../../docs/prompting.md', import.meta.url);

test('the prompt in tokens', async (t) => {
  const llama = await startLlama(t);
  const page = await readFile(PAGE, 'utf8');
  const ten = sections(await readFile(new URL('ten_tools.txt', PROMPTS), 'utf8'));
  const builtin = sections(await readFile(new URL('default.txt', PROMPTS), 'utf8'));
  const tools = JSON.parse(await readFile(new URL('ten_tools.json', PROMPTS)));
  assert.equal(tools.length, 10);

  const all = await llama.tokens(ten.tools);
  const schemas = await sum(tools.map((tool) => llama.tokens(JSON.stringify(tool.parameters))));
  const made = [
    ['the section of ten tools', all],
    ['a tool of it', Math.round(all / tools.length)],
    ['the bare schemas of the ten', schemas],
    ['one of them', Math.round(schemas / tools.length)],
    ['when to wait', await llama.tokens(ten.wait)],
    ['the contract', await llama.tokens(builtin.contract)],
    ['the example exchanges of the two tools built in', await llama.tokens(builtin.exchanges)],
  ].map(([what, tokens]) => `| ${what} | ${tokens} |`);
  assert.ok(page.includes(`${made.join('\n')}\n`), `docs/prompting.md is to say:\n${made.join('\n')}`);
});

/** The sections that the gateway writes into the system message, and the exchanges after it. */
function sections(prompt) {
  const [system, ...messages] = prompt.trimEnd().split(/\n\n--- (?:user|assistant)\n/);
  const all = system.split(/\n\n(?=# )/);
  const section = (heading) => all.find((text) => text.startsWith(`# ${heading}\n`));
  return {
    tools: section('The functions you can call'),
    wait: section('When to wait'),
    contract: section('How to call a function'),
    exchanges: messages.join('\n'),
  };
}

async function sum(counts) {
  return (await Promise.all(counts)).reduce((total, count) => total + count, 0);
}
