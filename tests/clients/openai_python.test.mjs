// OpenAI's own SDK for Python: what the scenarios of all clients do not show.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const CLIENT = fileURLToPath(new URL('openai_client.py', import.meta.url));

test('models, errors, and a response in the background', async (t) => {
  const upstream = await startModel(t, [call('calculate', { expression: '6*7' }), 'It is 42.']);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  const { stdout } = await promisify(execFile)('python3', [CLIENT, `${gateway.origin}/v1`]);
  assert.deepEqual(JSON.parse(stdout), {
    models: ['script', 'script:no-tools'],
    unknown: 'model_not_found',
    background: ['queued', 4, 'It is 42.'],
    polled: 'It is 42.',
    deleted: 404,
  });
});
