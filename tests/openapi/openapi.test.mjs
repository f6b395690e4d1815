// Schemathesis makes requests up from `/openapi.json`, valid and not. Whatever is sent, the gateway
// has no error of its own, and its answers are as described.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { startGateway } from '../lib/gateway.mjs';
import { startModel } from '../lib/model.mjs';

const HOOKS = fileURLToPath(new URL('hooks.py', import.meta.url));

const CHECKS = [
  'not_a_server_error', 'status_code_conformance', 'content_type_conformance', 'response_schema_conformance',
  'response_headers_conformance', 'unsupported_method', 'allow_header_conformance',
];

/** Requests for each operation, and seconds for all of them. */
const EXAMPLES = 50;
const SECONDS = 170;

test('the description is served to anyone, as OpenAPI 3.1', async (t) => {
  const gateway = await startGateway(t, { server: { api_keys: ['k'] } });
  const response = await fetch(`${gateway.origin}/openapi.json`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'application/json');
  const { openapi, paths } = await response.json();
  assert.equal(openapi, '3.1.0');
  assert.ok(paths['/api/v1/chat/stream'].post && paths['/v1/chat/completions'].post);
});

test('no request gets an answer that is not described', async (t) => {
  const upstream = await startModel(t, []);
  const gateway = await startGateway(t, { upstreams: [upstream], messages: { server_tools: 'mcp_tool_use' } });
  const directory = await mkdtemp(path.join(tmpdir(), 'tether-openapi-'));
  t.after(() => rm(directory, { recursive: true }));
  const args = [
    '-m', 'schemathesis.cli', 'run', `${gateway.origin}/openapi.json`,
    '--checks', CHECKS.join(','), '--phases', 'examples,coverage,fuzzing',
    '--max-examples', String(EXAMPLES), '--seed', '1', '--no-shrink', '--continue-on-failure',
    '--request-timeout', '20', '--warnings', 'off',
  ];
  const env = { ...process.env, SCHEMATHESIS_HOOKS: HOOKS, NO_COLOR: '1' };
  const child = spawn('python3', args, { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { printed += text; });
  const late = setTimeout(() => child.kill(), SECONDS * 1000);
  const [code] = await once(child, 'close');
  clearTimeout(late);
  assert.equal(code, 0, printed.slice(-20_000));
  const metrics = await (await fetch(`${gateway.origin}/metrics`)).text();
  for (const route of ['chat_stream', 'chat_completions', 'messages', 'count_tokens']) {
    const answered = metrics.match(new RegExp(`^tether_http_requests_total.*"${route}".*"200".* (\\d+)$`, 'm'));
    assert.ok(Number(answered?.[1]) >= EXAMPLES / 10, `${route}: ${answered?.[0]}`);
  }
  t.diagnostic(printed.trimEnd().split('\n').slice(-12).join('\n'));
});
