// Each program is set up as docs/clients.md says, answers a question, and runs a command of its own that the
// model asks for.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { REPOSITORY } from '../lib/binary.mjs';
import { blocks } from '../lib/blocks.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

const PROGRAMS = path.join(REPOSITORY, 'tests/.cache/programs/node_modules/.bin');
const PAGE = await readFile(path.join(REPOSITORY, 'docs/clients.md'), 'utf8');
const KEY = 'key-of-the-tests';
const COMMAND = 'echo made by a call | tee made.txt';

/** The code block that the page has for this program, filled in for this gateway. */
function setup(title, gateway) {
  const section = PAGE.split(`\n### ${title}\n`)[1].split('\n### ')[0];
  return blocks(section)[0].code
    .replaceAll('http://127.0.0.1:8080', gateway.origin)
    .replaceAll(/\bNAME\b/g, 'script')
    .replaceAll(/\bKEY\b/g, KEY);
}

/**
 * The programs: the `tool` that runs a command, with its arguments, and how to start one. `files` are below the home
 * directory; `script` is for a shell, in which `$PROMPT` is the question.
 */
const TABLE = {
  'Claude Code': {
    tool: ['Bash', { command: COMMAND, description: 'Makes a file' }],
    script: (gateway) => `${setup('Claude Code', gateway)}
      IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude --print "$PROMPT" --dangerously-skip-permissions`,
  },
  Cline: {
    tool: ['run_commands', { commands: [COMMAND] }],
    script: (gateway) => `${setup('Cline', gateway)}
      cline "$PROMPT"`,
  },
  'Codex CLI': {
    tool: ['exec_command', { cmd: COMMAND }],
    files: (gateway) => ({ '.codex/config.toml': setup('Codex CLI', gateway) }),
    script: () => `export TETHER_API_KEY=${KEY}
      codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "$PROMPT"`,
  },
  Continue: {
    tool: ['Bash', { command: COMMAND }],
    files: (gateway) => ({ '.continue/config.yaml': setup('Continue', gateway) }),
    script: () => 'cn --print "$PROMPT" --auto --config ~/.continue/config.yaml',
  },
  opencode: {
    tool: ['bash', { command: COMMAND, description: 'Makes a file' }],
    files: (gateway) => ({ '.config/opencode/opencode.json': setup('opencode', gateway) }),
    script: () => 'opencode run "$PROMPT"',
  },
  'Qwen Code': {
    tool: ['run_shell_command', { command: COMMAND, is_background: false }],
    script: (gateway) => `${setup('Qwen Code', gateway)}
      qwen --auth-type openai --yolo --prompt "$PROMPT"`,
  },
};

/** A model that greets, asks for the command, and says what came of it. */
function answerOf(tool) {
  return ({ messages }) => {
    const asked = JSON.stringify(messages.at(-1).content);
    if (/returned: .*made by a call/.test(asked)) return 'The command has made the file.';
    if (asked.includes('Run the command.')) return `I run it.\n${call(...tool)}`;
    return 'Good day to you.';
  };
}

/** A directory with a home in it, for as long as the test lives. */
async function makeHome(t, files) {
  const home = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  t.after(async () => {
    await endAll(home);
    await rm(home, { recursive: true, maxRetries: 5 });
  });
  await mkdir(path.join(home, 'work'));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(home, name)), { recursive: true });
    await writeFile(path.join(home, name), text);
  }
  return home;
}

/** Runs the program to its end and returns what it has written. */
async function run(script, home, PROMPT) {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: path.join(home, 'work'),
    env: { HOME: home, PATH: `${PROGRAMS}:${process.env.PATH}`, PROMPT, LANG: 'C.UTF-8' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let written = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => { written += text; });
  }
  const [status] = await once(child, 'exit');
  assert.equal(status, 0, written);
  return written;
}

/** Ends what programs have left running, even if it has left their group: all that has this home. */
async function endAll(home) {
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (environment.split('\0').includes(`HOME=${home}`)) process.kill(Number(pid), 'SIGKILL');
  }
}

for (const [name, { tool, files = () => ({}), script }] of Object.entries(TABLE)) {
  test(`${name} answers, and runs a command of its own`, async (t) => {
    const upstream = await startModel(t, answerOf(tool));
    const gateway = await startGateway(t, {
      model: { context_budget_tokens: 100_000 },
      server: { api_keys: [KEY] },
      upstreams: [upstream],
    });
    const home = await makeHome(t, files(gateway));
    assert.match(await run(script(gateway), home, 'Say hello.'), /Good day to you\./);
    assert.match(await run(script(gateway), home, 'Run the command.'), /The command has made the file\./);
    assert.equal(await readFile(path.join(home, 'work/made.txt'), 'utf8'), 'made by a call\n');
  });
}
