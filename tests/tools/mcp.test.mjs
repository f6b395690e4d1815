// Real MCP servers: the reference servers over both transports, and one on the official Python SDK,
// which speaks both eras of the protocol.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { callTool, configFile, listTools, tether } from '../lib/binary.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { EVERYTHING, FILESYSTEM } from '../lib/mcp_servers.mjs';

const SHOP = fileURLToPath(new URL('server.py', import.meta.url));
const PYTHONPATH = process.env.PYTHONPATH ?? '';

const config = (...mcp) => ({ tools: { builtin: [], mcp } });

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts a server that listens on a port, for as long as the test runs. */
async function serve(t, command, args, env = {}) {
  const port = await freePort();
  const child = spawn(command, [...args(port)], { env: { ...process.env, PORT: String(port), ...env }, stdio: 'ignore' });
  t.after(() => child.kill('SIGKILL'));
  for (;;) {
    const isThere = await fetch(`http://127.0.0.1:${port}/mcp`).then(() => true, () => false);
    if (isThere) return `http://127.0.0.1:${port}/mcp`;
    assert.equal(child.exitCode, null, 'the server did not start');
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
}

const REACHES = {
  'over standard input and output': async () => ({ command: [process.execPath, EVERYTHING] }),
  'over HTTP': async (t) => ({ url: await serve(t, process.execPath, () => [EVERYTHING, 'streamableHttp']) }),
};

for (const [how, reach] of Object.entries(REACHES)) {
  test(`server-everything ${how}`, async (t) => {
    const file = await configFile(t, config({ name: 'all', ...await reach(t) }));
    const { tools, said } = await listTools(file);
    assert.ok(tools.length >= 13, `${tools.length} tools`);
    assert.deepEqual(said, [
      'warning: mcp all: simulate-research-query is not offered: it runs only as a task, which is not supported',
    ]);
    const data = async (name, args) => (await callTool(file, `all__${name}`, args)).data;
    assert.deepEqual(await data('echo', { message: 'ä' }), { text: 'Echo: ä' });
    assert.deepEqual(await data('get-sum', { a: 2, b: 3 }), { text: 'The sum of 2 and 3 is 5.' });
    assert.ok((await data('get-structured-content', { location: 'Chicago' })).temperature);
    assert.equal((await data('get-resource-links', { count: 2 })).links.length, 2);
    const image = await data('get-tiny-image', {});
    assert.deepEqual(image.artifacts.map(({ kind, mime_type }) => [kind, mime_type]), [['image', 'image/png']]);
  });

  test(`a long call of server-everything ${how} reports its progress`, async (t) => {
    const file = await configFile(t, config({ name: 'all', ...await reach(t) }));
    const args = ['tools', 'call', 'all__trigger-long-running-operation', '{"duration":1,"steps":3}'];
    const { stdout } = await tether([...args, '--events', '--config', file]);
    const events = stdout.trim().split('\n').map((line) => JSON.parse(line));
    const progress = events.filter(({ type }) => type === 'tool_progress').map(({ data }) => data.progress);
    assert.ok(progress.length >= 2 && progress.every((step, at) => at === 0 || step > progress[at - 1]), stdout);
    assert.equal(events.at(-1).data.tool_result.success, true);
  });

  test(`a question of server-everything ${how} is asked, and its defaults are filled in`, async (t) => {
    const file = await configFile(t, config({ name: 'all', ...await reach(t) }));
    const asked = await callTool(file, 'all__trigger-elicitation-request');
    assert.equal(asked.clarification.type, 'form');
    const answer = JSON.stringify({ name: 'Ada' });
    const { data } = await callTool(file, 'all__trigger-elicitation-request', {}, ['--answer', answer]);
    assert.match(data.text, /Ada/);
    assert.match(data.text, /It was a dark and stormy night/);
    const declined = await callTool(file, 'all__trigger-elicitation-request', {}, ['--answer', 'decline']);
    assert.match(declined.data.text, /declined/);
  });
}

test('a server sees little of the environment', async (t) => {
  const entry = { name: 'all', command: [process.execPath, EVERYTHING], env: { OWN: 'yes' }, env_inherit: ['PASSED'] };
  const file = await configFile(t, config(entry));
  const env = { SESAME: 'secret', PASSED: 'on', TETHER_LOG: 'off' };
  const { stdout } = await tether(['tools', 'call', 'all__get-env', '--config', file], { env });
  const { data } = JSON.parse(stdout);
  assert.equal(data.OWN, 'yes');
  assert.equal(data.PASSED, 'on');
  // The last is how what it leaves running is found.
  const usual = /^(PATH|HOME|LANG|LC_.*|TZ|TMPDIR|USER|OWN|PASSED|TETHER_PROCESS)$/;
  assert.deepEqual(Object.keys(data).filter((name) => !usual.test(name)), []);
});

test('server-filesystem stays in its directory, and in its sandbox', async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), 'tether-files-'));
  t.after(() => rm(directory, { recursive: true }));
  await writeFile(path.join(directory, 'note.txt'), 'The code is 4711.');
  const entry = { name: 'files', command: [process.execPath, FILESYSTEM, directory] };
  const readable = { mode: 'auto', read: ['/'] };
  const file = await configFile(t, config(entry, { ...entry, name: 'boxed', sandbox: readable }));
  const read = await callTool(file, 'files__read_text_file', { path: path.join(directory, 'note.txt') });
  assert.match(JSON.stringify(read.data), /4711/);
  const outside = await callTool(file, 'files__read_text_file', { path: '/etc/passwd' });
  assert.match(outside.error, /outside allowed directories/);
  const target = path.join(directory, 'new.txt');
  const boxed = await callTool(file, 'boxed__write_file', { path: target, content: 'x' });
  assert.equal(boxed.success, false, 'the kernel refuses it');
  const written = await callTool(file, 'files__write_file', { path: target, content: 'x' });
  assert.equal(written.success, true);
  assert.equal(await readFile(target, 'utf8'), 'x');
});

test("another program's file of servers is imported", async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), 'tether-files-'));
  t.after(() => rm(directory, { recursive: true }));
  await writeFile(path.join(directory, 'note.txt'), 'The code is 4711.');
  const file = await configFile(t, config({ import: 'mcp.json' }));
  await writeFile(path.join(path.dirname(file), 'mcp.json'), `{
    // What an editor writes.
    "servers": {
      "Our Files": { "type": "stdio", "command": ${JSON.stringify(process.execPath)}, "args": [${JSON.stringify(FILESYSTEM)}, "\${FOLDER}"] },
      "old": { "type": "sse", "url": "https://mcp.example.org/sse" },
    },
  }`);
  const env = { FOLDER: directory };
  const args = JSON.stringify({ path: path.join(directory, 'note.txt') });
  const { stdout } = await tether(['tools', 'call', 'our_files__read_text_file', args, '--config', file], { env });
  assert.match(stdout, /4711/);
  const { said } = await listTools(file);
  assert.match(said[0], /mcp our_files: the environment variable FOLDER is not set/);
  assert.match(said[1], /mcp old: it speaks HTTP\+SSE, which MCP has replaced/);
});

test('check --probe says what to set for what it finds', async (t) => {
  const file = await configFile(t, config(
    { name: 'files', command: [process.execPath, FILESYSTEM, '.'] },
    { name: 'broken', command: [process.execPath, '-e', 'console.error("I need SESAME"); process.exit(3)'] },
  ));
  const { status, stdout, stderr } = await tether(['check', '--probe', '--config', file]);
  assert.equal(status, 0);
  assert.match(stdout, /^server:/);
  assert.match(stderr, /note: mcp files: it offers 14 tools over MCP 2025-11-25/);
  assert.match(stderr, /mcp files: set `protocol: legacy`/);
  assert.match(stderr, /mcp files: 14 of its tools count as changing something.*`trust: true`/);
  assert.match(stderr, /warning: mcp broken: .*I need SESAME/);
  assert.match(stderr, /note: mcp broken: run its `command` by hand; .*`env_inherit`/);
  assert.match(stderr, /note: 14 tools take about \d+ of 8192 tokens of context/);
  const [, pin] = /mcp files: set `pin: (sha256:[0-9a-f]{64})`/.exec(stderr);
  const pins = await tether(['tools', 'pin', '--config', file]);
  assert.ok(pins.stdout.includes(pin));
});

test('the Python SDK in both eras', async (t) => {
  const command = ['python3', SHOP];
  const env = { PYTHONPATH };
  const url = await serve(t, 'python3', (port) => [SHOP, String(port)]);
  const entries = [
    { name: 'modern', command, env },
    { name: 'legacy', command, env, protocol: 'legacy' },
    { name: 'web', url },
  ];
  const gateway = await startGateway(t, config(...entries.map((entry) => ({ ...entry, required: true }))));
  while ((await fetch(`${gateway.origin}/readyz`)).status !== 200) {
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  const { servers } = await (await fetch(`${gateway.origin}/api/v1/tools`)).json();
  const eras = servers.filter(({ kind }) => kind === 'mcp').map(({ name, era, version }) => [name, era, version]);
  assert.deepEqual(eras, [
    ['modern', 'modern', '2026-07-28'],
    ['legacy', 'legacy', '2025-11-25'],
    ['web', 'modern', '2026-07-28'],
  ]);

  for (const entry of entries) {
    const { name } = entry;
    const file = await configFile(t, config(entry));
    const call = (tool, args, ...options) => callTool(file, `${name}__${tool}`, args, options);
    assert.deepEqual((await call('add', { a: 2, b: 3 })).data, { result: 5 });
    assert.equal((await call('fail')).success, false);
    const asked = await call('order', { item: 'tea' });
    assert.deepEqual(asked.clarification.options.map(({ id }) => id), ['small', 'large']);
    // This object answers both of its questions.
    const answers = JSON.stringify({ size: 'large', sure: true });
    const { data } = await call('order', { item: 'tea' }, '--answer', answers);
    assert.equal(data.result, 'ordered: tea, large, note none, sure True');
    const declined = await call('order', { item: 'tea' }, '--answer', 'decline');
    assert.match(declined.error, /decline/);
  }
});

test('a pin holds a server to its list', async (t) => {
  const entry = { name: 'files', command: [process.execPath, FILESYSTEM, tmpdir()] };
  const { stdout } = await tether(['tools', 'pin', '--config', await configFile(t, config(entry))]);
  const [, pin] = stdout.match(/^files: (sha256:[0-9a-f]{64}) # \d+ tools$/m) ?? [];
  assert.ok(pin, stdout);
  const pinned = await listTools(await configFile(t, config({ ...entry, pin })));
  assert.ok(pinned.tools.length > 10);
  const wrong = `sha256:${'0'.repeat(64)}`;
  const refused = await listTools(await configFile(t, config({ ...entry, pin: wrong })));
  assert.deepEqual(refused.tools, []);
  assert.match(refused.said[0], /its tools do not match `pin`, so none are offered: found sha256:/);
});

/** A modern server over HTTP, whose tool wants its argument in another header after the first list. */
async function startMoving(t) {
  const calls = [];
  let lists = 0;
  const tool = (header) => ({
    name: 'read', description: 'Reads.',
    inputSchema: { type: 'object', properties: { zone: { type: 'string', 'x-mcp-header': header } } },
  });
  const results = {
    'server/discover': () => ({ supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ttlMs: 1000, cacheScope: 'public' }),
    'tools/list': () => { lists += 1; return { tools: [tool(lists === 1 ? 'Region' : 'Zone')], ttlMs: 1000, cacheScope: 'public' }; },
    'tools/call': ({ name, arguments: args }) => ({ content: [{ type: 'text', text: `${name} ${args.zone}` }] }),
  };
  const server = createHttpServer(async (incoming, outgoing) => {
    const body = JSON.parse(Buffer.concat(await incoming.toArray()).toString() || '{}');
    const reply = (status, answer) => {
      outgoing.writeHead(status, { 'content-type': 'application/json' });
      outgoing.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, ...answer }));
    };
    const result = results[body.method];
    if (!result) return reply(404, { error: { code: -32601, message: 'unknown method' } });
    if (body.method === 'tools/call') {
      const { 'mcp-param-region': region, 'mcp-param-zone': zone } = incoming.headers;
      calls.push({ region, zone });
      if (!zone) return reply(400, { error: { code: -32020, message: 'Mcp-Param-Zone is missing' } });
    }
    return reply(200, { result: { resultType: 'complete', ...result(body.params) } });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.close(); server.closeAllConnections(); });
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, calls };
}

test('a call whose headers have changed is made again with the new ones, once', async (t) => {
  const { url, calls } = await startMoving(t);
  const file = await configFile(t, config({ name: 'moving', url, protocol: 'modern' }));
  const result = await callTool(file, 'moving__read', { zone: 'eu' });
  assert.deepEqual(calls, [{ region: 'eu', zone: undefined }, { region: undefined, zone: 'eu' }]);
  assert.deepEqual(result.data, { text: 'read eu' });
});

test('with a pin, a changed list is not called either', async (t) => {
  const first = await startMoving(t);
  const entry = { name: 'moving', url: first.url, protocol: 'modern' };
  const { stdout } = await tether(['tools', 'pin', '--config', await configFile(t, config(entry))]);
  const [, pin] = /(sha256:[0-9a-f]{64})/.exec(stdout);
  const { url, calls } = await startMoving(t);
  const result = await callTool(await configFile(t, config({ ...entry, url, pin })), 'moving__read', { zone: 'eu' });
  assert.equal(calls.length, 1);
  assert.match(result.error, /Mcp-Param-Zone is missing/);
});
