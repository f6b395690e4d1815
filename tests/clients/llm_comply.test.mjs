// `llm-comply`, a suite that checks each message of an API against its specification.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const WEATHER = call('get_weather', { location: 'San Francisco' });
const THOUGHT = '<think>15 * 37 is 555.</think>It is 555.';
const USUAL = ['Hello, my friend.', 'Hello.', 'Alice', WEATHER, '1 2 3 4 5', 'Word.', 'A picture.'];

/**
 * By format: a model's name that lets it try reasoning, how many tests there are, and what the model
 * says, in their order. Nothing is asked of it where only errors are tried.
 */
const FORMATS = [
  ['openai-chat', 'deepseek-r', 9, [...USUAL, THOUGHT], {}],
  ['open-responses', 'deepseek-r', 13, [...USUAL, 'Four.', 'Word.', THOUGHT], {}],
  ['open-responses', 'deepseek-r', 13, [...USUAL, 'Four.', 'Word.', THOUGHT], { responses: { server_tools: 'hidden' } }],
  ['anthropic', 'claude-sonnet-4', 9, [...USUAL, THOUGHT], {}],
];
// How many tokens were reasoning, the model server does not say; compaction is refused.
const WARN = ['chat-reasoning-summary', 'compact-response'];

for (const [format, model, count, script, sections] of FORMATS) {
  test(`llm-comply finds nothing wrong: ${[format, sections.responses?.server_tools].filter(Boolean).join(', ')}`, async (t) => {
    const upstream = { ...await startModel(t, script), name: model };
    const gateway = await startGateway(t, { upstreams: [upstream], ...sections });
    const asked = ['-u', `${gateway.origin}/v1`, '-k', 'none', '-m', model, '--format', format, '--json'];
    const { stdout } = await promisify(execFile)('python3', ['-c', 'from llm_comply.cli import main; main()', 'run', ...asked]);
    const { results } = JSON.parse(stdout);
    assert.equal(results.length, count);
    for (const { id, status, errors = [], warnings = [] } of results) {
      assert.deepEqual([id, status, errors], [id, 'passed', []]);
      if (!WARN.includes(id)) assert.deepEqual(warnings, [], id);
    }
  });
}
