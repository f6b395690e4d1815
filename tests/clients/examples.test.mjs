// The programs of `examples/`, as their readers start them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

/** Runs a program in front of a model with this script, to its end. */
async function start(t, script, command, { input = '', cwd = REPOSITORY, ...sections } = {}) {
  const requests = [];
  const upstream = await startModel(t, script, requests);
  const server = { api_keys: ['a-key'] };
  const gateway = await startGateway(t, { upstreams: [upstream], server, ...sections });
  const [program, ...args] = command;
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, TETHER_URL: gateway.origin, TETHER_API_KEY: 'a-key' },
  });
  child.stdin.end(input);
  const [printed, complaint, [status]] =
    await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { printed, complaint, status, requests };
}

/** The same, for a program that has to succeed. */
async function run(...args) {
  const ended = await start(...args);
  assert.equal(ended.status, 0, ended.printed + ended.complaint);
  return ended;
}

/** A copy of an example where Node finds the packages of the tests. */
async function besidePackages(name) {
  const packages = await realpath(path.join(REPOSITORY, 'tests/node_modules'));
  const copy = path.join(path.dirname(packages), name);
  await copyFile(path.join(REPOSITORY, 'examples', name), copy);
  return copy;
}

const SUM = call('calculate', { expression: '6*7' });

test('chat.sh prints the answer', async (t) => {
  const { printed } = await run(t, [SUM, 'It is "42".'], ['examples/chat.sh', 'What is "6*7"?']);
  assert.equal(printed, 'It is "42".\n');
});

test('chat.sh says why a turn failed', async (t) => {
  const script = [{ say: 'It is', dies: true }];
  const ended = await start(t, script, ['examples/chat.sh', 'What is "6*7"?']);
  assert.equal(ended.status, 1);
  assert.equal(ended.printed, 'It is');
  assert.match(ended.complaint, /^\nfailed: .+\n$/);
});

test('chat.sh says why a request is refused', async (t) => {
  const { status, printed, complaint } = await start(t, [], ['examples/chat.sh', ' ']);
  assert.deepEqual([status, printed], [1, '']);
  assert.match(complaint, /^refused: prompt is empty.*\n$/);
});

test('chat.py goes on with the conversation', async (t) => {
  const lines = 'What is 6*7?\nAnd before that?\n';
  const { printed, requests } =
    await run(t, [SUM, 'It is 42.', 'It was 41.'], ['python3', 'examples/chat.py'], { input: lines });
  assert.equal(printed, '> It is 42.\n> It was 41.\n> ');
  assert.match(JSON.stringify(requests.at(-1).messages), /It is 42\./);
});

test('own_tool.mjs reads a file, and the gateway does the sum', async (t) => {
  const script = [`${SUM} ${call('open_file', { path: 'LICENSE-APACHE' })}`, 'It says Apache.'];
  const { printed, requests } = await run(t, script, ['node', await besidePackages('own_tool.mjs')]);
  assert.equal(printed.trim(), 'It says Apache.');
  assert.match(JSON.stringify(requests.at(-1).messages), /Apache License/);
});

test('own_tool.mjs reads no file outside of its directory', async (t) => {
  const project = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  t.after(() => rm(project, { recursive: true }));
  await writeFile(path.join(project, '..notes'), 'Milk.');
  const script = [`${call('open_file', { path: '..notes' })} ${call('open_file', { path: '..' })}`, 'Milk.'];
  const command = ['node', await besidePackages('own_tool.mjs')];
  const { requests } = await run(t, script, command, { cwd: project });
  const told = JSON.stringify(requests.at(-1).messages);
  assert.match(told, /Milk\./);
  assert.match(told, /That file is outside the project\./);
});

test('own_tool.py reads a file', async (t) => {
  const script = [call('open_file', { path: 'LICENSE-APACHE' }), 'It says Apache.'];
  const { printed, requests } = await run(t, script, ['python3', 'examples/own_tool.py']);
  assert.equal(printed, 'It says Apache.\n');
  assert.match(JSON.stringify(requests.at(-1).messages), /Apache License/);
});

test('show_tools.mjs shows a call, and goes on', async (t) => {
  const command = ['node', await besidePackages('show_tools.mjs'), 'What is 6*7?', 'Sure?'];
  const { printed, requests } = await run(t, [SUM, 'It is 42.', 'Quite.'], command);
  assert.match(printed, /^\[calculate \{"expression":"6\*7"\}: \{.*"result":"42".*\}\]\nIt is 42\.\nQuite\.\n$/);
  assert.match(JSON.stringify(requests.at(-1).messages), /It is 42\./);
});

test('front_end.mjs asks what a tool asks', async (t) => {
  const script = [call('lookup_contacts', { name: 'John' }), 'Calling him.', 'Bye.'];
  const command = ['node', await besidePackages('front_end.mjs')];
  const { printed, requests } = await run(t, script, command, { input: 'Call John.\n2\nBye.\n', tools: { demo: true } });
  assert.match(printed, /^> \[lookup_contacts \{"name":"John"\}\]\nWhich John.*\n2\. John Smith.*\n> Calling him\.\n> Bye\.\n> $/s);
  assert.match(JSON.stringify(requests[1].messages), /contact_john_smith/);
});
