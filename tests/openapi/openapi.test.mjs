// Schemathesis makes requests up from `/openapi.json`, valid and not. Whatever is sent, the gateway
// has no error of its own, and its answers are as described, each event of a stream included.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const HOOKS = fileURLToPath(new URL('hooks.py', import.meta.url));

const CHECKS = [
  'not_a_server_error', 'status_code_conformance', 'content_type_conformance', 'response_schema_conformance',
  'response_headers_conformance', 'unsupported_method', 'allow_header_conformance',
];

/** Requests for each operation, and seconds for all of them. */
const EXAMPLES = 50;
const SECONDS = 170;

/** What can succeed, and is asked more than once: a tenth of the requests have to. */
const SUCCESSFUL = [
  'chat_stream', 'chat_cancel', 'chat_completions', 'responses', 'messages', 'count_tokens', 'ai_sdk_chat', 'ag_ui',
  'session', 'model', 'response', 'response_cancel', 'response_input_items',
];

/** The session in which a turn runs. */
const RUNNING = 'running';

/** An upstream that takes its time: no longer than a request that joins its turn may take. */
async function startSlowModel(t) {
  const slow = { say: 'Well.', get holds() { return sleep(500); } };
  return { ...await startModel(t, Array(10_000).fill(slow)), name: 'slow' };
}

/**
 * Keeps a turn running: once it ends, another one begins. Returns what stops that and says how many there were.
 * Requests that are made up may name this session, too: a turn of theirs is waited for.
 */
async function keepRunning(gateway) {
  let isOver = false;
  let turns = 0;
  const url = `${gateway.origin}/api/v1/chat/stream`;
  const body = JSON.stringify({ session_id: RUNNING, model: 'slow', prompt: 'Hi.' });
  const begin = async () => {
    for (;;) {
      const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      if (response.status === 200) return response;
      assert.equal(response.status, 409, await response.text());
      await (await fetch(`${url}?session_id=${RUNNING}`)).text();
    }
  };
  let running = await begin();
  const kept = (async () => {
    for (;;) {
      turns += 1;
      await running.text();
      if (isOver) return turns;
      running = await begin();
    }
  })();
  // If the test fails, it ends with the gateway.
  kept.catch(() => {});
  return () => { isOver = true; return kept; };
}

/** Makes a session and a response, and returns what there is by the paths that name it. */
async function make(gateway) {
  const body = JSON.stringify({ session_id: 'made', prompt: 'What is 1 + 1?' });
  await (await gateway.begin('', { body })).text();
  const stored = await fetch(`${gateway.origin}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'script', input: 'Hi.' }),
  });
  const { id } = await stored.json();
  return {
    '/api/v1/sessions/{id}': 'made',
    '/api/v1/chat/cancel': RUNNING,
    '/v1/models/{id}': 'script',
    '/v1/responses/{id}': id,
    '/v1/responses/{id}/cancel': id,
    '/v1/responses/{id}/input_items': id,
  };
}

/** Runs Schemathesis on a description; returns its exit status and what it printed. */
async function schemathesis(t, gateway, description, there, ...args) {
  const directory = await mkdtemp(path.join(tmpdir(), 'tether-openapi-'));
  t.after(() => rm(directory, { recursive: true }));
  await writeFile(path.join(directory, 'openapi.json'), JSON.stringify(description));
  const all = [
    '-m', 'schemathesis.cli', 'run', 'openapi.json', '--url', gateway.origin, '--checks', CHECKS.join(','), '--seed', '1',
    '--no-shrink', '--continue-on-failure', '--request-timeout', '20', '--warnings', 'off', ...args,
  ];
  const env = { ...process.env, SCHEMATHESIS_HOOKS: HOOKS, TETHER_THERE: JSON.stringify(there), NO_COLOR: '1' };
  const child = spawn('python3', all, { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { printed += text; });
  const late = setTimeout(() => child.kill(), SECONDS * 1000);
  const [code] = await once(child, 'close');
  clearTimeout(late);
  return { code, printed };
}

async function described(gateway) {
  const response = await fetch(`${gateway.origin}/openapi.json`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'application/json');
  return response.json();
}

test('the description is served to anyone, as OpenAPI 3.1', async (t) => {
  const gateway = await startGateway(t, { server: { api_keys: ['k'] }, chat: { session_headers: ['X-Thread'] } });
  const { openapi, paths } = await described(gateway);
  assert.equal(openapi, '3.1.0');
  const headers = paths['/v1/chat/completions'].post.parameters.map(({ name }) => name.toLowerCase());
  assert.deepEqual(headers, ['x-session-id', 'x-thread']);
});

test('no request gets an answer that is not described', async (t) => {
  const upstream = await startModel(t, [call('calculate', { expression: '1 + 1' }), 'Two.']);
  const upstreams = [upstream, await startSlowModel(t)];
  const gateway = await startGateway(t, { upstreams, messages: { server_tools: 'mcp_tool_use' } });
  const there = await make(gateway);
  const stop = await keepRunning(gateway);
  const args = ['--phases', 'examples,coverage,fuzzing', '--max-examples', String(EXAMPLES)];
  const { code, printed } = await schemathesis(t, gateway, await described(gateway), there, ...args);
  const ours = await stop();
  assert.equal(code, 0, printed.slice(-20_000));
  const metrics = await (await fetch(`${gateway.origin}/metrics`)).text();
  // A route may have a line for 200 and one for 202: preflights count, too.
  const succeeded = (route) => [...metrics.matchAll(new RegExp(`^tether_http_requests_total.*"${route}".*"20[02]".* (\\d+)$`, 'gm'))]
    .reduce((sum, [, count]) => sum + Number(count), 0);
  const counts = Object.fromEntries(SUCCESSFUL.map((route) => [route, succeeded(route)]));
  counts.chat_stream -= ours;
  t.diagnostic(JSON.stringify(counts));
  assert.ok(Object.values(counts).every((count) => count >= EXAMPLES / 10), JSON.stringify(counts));
  t.diagnostic(printed.trimEnd().split('\n').slice(-12).join('\n'));
});

/** Otherwise the streams of the test above would be held to nothing. */
test('an event that is not as described is found', async (t) => {
  const upstream = await startModel(t, []);
  const gateway = await startGateway(t, { upstreams: [upstream] });
  for (const [operation, event] of [['startTurn', 'EventTurnCompleted'], ['startChat', 'UiMessagePartFinish']]) {
    const description = await described(gateway);
    description.components.schemas[event].required.push('absent');
    const args = ['--include-operation-id', operation, '--phases', 'fuzzing', '--max-examples', '10'];
    const { code, printed } = await schemathesis(t, gateway, description, {}, ...args);
    assert.equal(code, 1, printed);
    assert.match(printed, /SSE event (payload )?violates/);
  }
});
