// docs/tools.md, followed step by step by someone who has only the repository.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { BINARY, REPOSITORY, configFile, tether } from '../lib/binary.mjs';
import { blocks } from '../lib/blocks.mjs';

const PAGE = await readFile(path.join(REPOSITORY, 'docs/tools.md'), 'utf8');

const section = (title) => PAGE.split(`\n## ${title}\n`)[1].split('\n## ')[0];

// Packages are not fetched: the one that is installed runs, if its version is the one on the page.
const NPX = `#!/bin/bash
set -e
[[ $1 == -y ]]
name=\${2%@*} version=\${2##*@}
shift 2
package=${REPOSITORY}/tests/node_modules/$name
main=$(node -e '
  const { version, bin } = require(process.argv[1] + "/package.json");
  if (version !== process.argv[2]) throw new Error("the page has " + process.argv[2] + ", installed is " + version);
  console.log(typeof bin === "string" ? bin : Object.values(bin)[0]);
' "$package" "$version")
exec node "$package/$main" "$@"
`;

describe('five minutes', () => {
  const [script, yaml, mock, calls, results, looks] = blocks(section('Five minutes'));
  let directory;
  let env;
  let mocked;

  after(async () => {
    mocked?.kill('SIGKILL');
    await rm(directory, { recursive: true });
  });

  /** Runs lines of shell in the folder, and returns what they print. */
  async function shell(code) {
    const child = spawn('bash', ['-e', '-c', code], { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (data) => { stdout += data; });
    child.stderr.on('data', (data) => { stderr += data; });
    const [status] = await once(child, 'close');
    assert.equal(status, 0, `${code}\n${stderr}`);
    return { stdout, stderr };
  }

  before(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'tether-docs-'));
    const bin = path.join(directory, 'bin');
    await mkdir(bin);
    await writeFile(path.join(bin, 'npx'), NPX);
    await chmod(path.join(bin, 'npx'), 0o755);
    env = { ...process.env, PWD: directory, PATH: `${bin}:${path.dirname(BINARY)}:${process.env.PATH}` };
    await cp(path.join(REPOSITORY, 'config'), path.join(directory, 'config'), { recursive: true });
    mocked = spawn('bash', ['-c', `exec ${mock.code.trim().replace(/ &$/, '')}`], { cwd: directory, env, stdio: 'ignore' });
    await writeFile(path.join(directory, 'tools.yml'), yaml.code);
    await shell(script.code);
    for (;;) {
      const socket = createConnection(4010, '127.0.0.1');
      const isThere = await Promise.race([once(socket, 'connect').then(() => true), once(socket, 'error').then(() => false)]).catch(() => false);
      socket.destroy();
      if (isThere) break;
      assert.equal(mocked.exitCode, null, 'the mock did not start');
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  });

  test('the tools answer as the page shows', async () => {
    const { stdout } = await shell(calls.code);
    const pattern = results.code.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('\\.\\.\\.', '\\d+');
    assert.match(stdout, new RegExp(`^${pattern}$`));
  });

  test('the commands that look at the configuration find nothing wrong', async () => {
    const { stderr } = await shell(looks.code);
    assert.doesNotMatch(stderr, /warning|error/);
    assert.match(stderr, /note: mcp files: it offers 14 tools/);
  });
});

const README = await readFile(path.join(REPOSITORY, 'README.md'), 'utf8');

test('every example of a configuration is valid', async (t) => {
  const examples = blocks(README + PAGE).filter(({ language }) => language === 'yaml');
  assert.ok(examples.length >= 6);
  for (const { code } of examples) {
    const file = await configFile(t, {});
    const folder = path.dirname(file);
    await writeFile(file, code);
    // The file that an editor keeps.
    await mkdir(path.join(folder, '.cursor'));
    await writeFile(path.join(folder, '.cursor/mcp.json'), '{"mcpServers": {}}');
    const variables = [...code.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => [name, '/x']);
    const { status, stderr } = await tether(['check', '--config', file], { env: { ...Object.fromEntries(variables), HOME: folder } });
    assert.equal(status, 0, `${code}\n${stderr}`);
  }
});
