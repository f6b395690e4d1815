// Python clients of `/v1/responses`: OpenAI's SDK, its Agents SDK, LangChain, and a checker of the API.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const CLIENT = fileURLToPath(new URL('responses_client.py', import.meta.url));
const SUM = call('calculate', { expression: '6*7' });
const ANSWERED = [SUM, 'It is 42.'];

test('each client gets the answer, and runs only its own tools', async (t) => {
  const opens = [`${SUM} ${call('open_file', { path: 'a' })}`, 'It says milk.'];
  const script = [
    ...ANSWERED, ...ANSWERED, ...ANSWERED, 'Yes.',
    ...opens, ...opens,
    ...ANSWERED, ...ANSWERED, `${SUM} ${call('shut_file', { path: 'a' })}`,
  ];
  const upstream = await startModel(t, script);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  const { stdout } = await promisify(execFile)('python3', [CLIENT, `${gateway.origin}/v1`]);
  assert.deepEqual(JSON.parse(stdout), {
    create: ['It is 42.', ['mcp_call', 'message'], 'completed'],
    stream: ['It is 42.', ['mcp_call', 'message'], 'response.created', 'response.completed'],
    background: ['queued', 4, 'It is 42.'],
    polled: 'It is 42.',
    chained: 'Yes.',
    deleted: 404,
    agents: ['It says milk.', 'It says milk.', ['a', 'a']],
    langchain: ['It is 42.', 0],
    langchain_stream: 'It is 42.',
    langchain_call: [['shut_file', { path: 'a' }]],
  });
});
