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
const run = promisify(execFile);

test('each client gets the answer, and runs only its own tools', async (t) => {
  const opens = [`${SUM} ${call('open_file', { path: 'a' })}`, 'It says milk.'];
  const script = [
    ...ANSWERED, ...ANSWERED, ...ANSWERED, 'Yes.',
    ...opens, ...opens,
    ...ANSWERED, ...ANSWERED, `${SUM} ${call('shut_file', { path: 'a' })}`,
  ];
  const upstream = await startModel(t, script);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  const { stdout } = await run('python3', [CLIENT, `${gateway.origin}/v1`]);
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

for (const server of ['mcp_call', 'hidden']) {
  test(`llm-comply finds nothing wrong with responses.server_tools: ${server}`, async (t) => {
    const weather = call('get_weather', { location: 'San Francisco' });
    // In the order of the suite. Nothing is asked of a model where it only tries errors.
    const script = [
      'Hello, my friend.', 'Hello.', 'Alice', weather, '1 2 3 4 5', 'Word.', 'A picture.', 'Four.', 'Word.',
      '<think>15 * 37 is 555.</think>It is 555.',
    ];
    const upstream = { ...await startModel(t, script), name: 'deepseek-r' };
    const gateway = await startGateway(t, { upstreams: [upstream], responses: { server_tools: server } });
    const asked = ['-u', `${gateway.origin}/v1`, '-k', 'none', '-m', 'deepseek-r', '--format', 'open-responses', '--json'];
    const { stdout } = await run('python3', ['-c', 'from llm_comply.cli import main; main()', 'run', ...asked]);
    const { results } = JSON.parse(stdout);
    assert.equal(results.length, 13);
    for (const { id, status, errors } of results) {
      assert.deepEqual([id, status, errors ?? []], [id, 'passed', []]);
    }
  });
}
