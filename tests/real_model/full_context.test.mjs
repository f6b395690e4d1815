// A conversation that llama.cpp refuses as too long: the gateway tells it less.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { startGateway } from '../lib/gateway.mjs';
import { startLlama } from './llama.mjs';

const CONTEXT_TOKENS = 1024;

test('a context that is smaller than configured', async (t) => {
  const llama = await startLlama(t, { context: CONTEXT_TOKENS });
  const gateway = await startGateway(t, { upstreams: [{ name: 'llama', base_url: `${llama.origin}/v1` }] });
  const ask = async (messages) => {
    const response = await fetch(`${gateway.origin}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'llama', messages, max_tokens: 8 }),
    });
    return { status: response.status, ...await response.json() };
  };
  const question = (words) => ({ role: 'user', content: words });
  const exchanges = Array.from({ length: 12 }, (_, at) => [
    question(`Question ${at}: ${'What is the weather like in spring? '.repeat(12)}`),
    { role: 'assistant', content: 'It is mild.' },
  ]);
  const { status, usage } = await ask([...exchanges.flat(), question('Say hello.')]);
  assert.equal(status, 200);
  assert.ok(usage.prompt_tokens > CONTEXT_TOKENS / 4, 'what fits is told');

  const { status: refused, error } = await ask([question('long '.repeat(3 * CONTEXT_TOKENS))]);
  assert.equal(refused, 400);
  assert.match(error.message, /^prompt is too long: .*exceeds the available context size/);
});
