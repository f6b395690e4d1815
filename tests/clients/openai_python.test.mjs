// OpenAI's own SDK for Python against `/v1/chat/completions`.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const CLIENT = fileURLToPath(new URL('openai_client.py', import.meta.url));

test('each way of asking gets the answer behind which our tools have run', async (t) => {
  const sum = call('calculate', { expression: '6*7' });
  const answered = [sum, 'It is 42.'];
  const script = [...answered, ...answered, ...answered, call('open_file', { path: 'a' }), 'It says milk.'];
  const upstream = await startModel(t, script);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  const { stdout } = await promisify(execFile)('python3', [CLIENT, `${gateway.origin}/v1`]);
  const { usage, ...printed } = JSON.parse(stdout);
  assert.ok(Number.isInteger(usage));
  assert.deepEqual(printed, {
    create: ['It is 42.', 'stop'],
    iterated: 'It is 42.',
    stream: ['It is 42.', 'stop'],
    call: ['tool_calls', 'open_file', '{"path":"a"}'],
    answer: 'It says milk.',
    error: 'model_not_found',
    models: ['script', 'script:no-tools'],
  });
});
