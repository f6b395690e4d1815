// The binary under test, as a command that ends.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
const TARGET = path.resolve(REPOSITORY, process.env.CARGO_TARGET_DIR ?? 'target');
export const BINARY = process.env.TETHER_BIN ?? path.join(TARGET, 'debug', 'tether');

/** Writes a configuration for the test `t` and returns its path. JSON is YAML. */
export async function configFile(t, config) {
  const directory = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  t.after(() => rm(directory, { recursive: true }));
  const file = path.join(directory, 'tether.yml');
  await writeFile(file, JSON.stringify(config));
  return file;
}

/** Runs `tether` with these arguments to its end. */
export async function tether(args, { input = '', env = {} } = {}) {
  const child = spawn(BINARY, args, { env: { ...process.env, ...env } });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => { stdout += text; });
  child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text; });
  child.stdin.on('error', () => {}).end(input);
  const [status, signal] = await once(child, 'close');
  return { status, signal, stdout, stderr };
}

/** The tools that a configuration offers, and what standard error says of the others. */
export async function listTools(file) {
  const { status, stdout, stderr } = await tether(['tools', '--config', file]);
  if (status !== 0) throw new Error(`tether tools: status ${status}: ${stderr}`);
  return { tools: JSON.parse(stdout).tools, said: stderr.split('\n').filter(Boolean) };
}

/** Runs one tool and returns its result. */
export async function callTool(file, name, args = {}, options = []) {
  const call = ['tools', 'call', name, '-', '--config', file, ...options];
  const { status, stdout, stderr } = await tether(call, { input: JSON.stringify(args) });
  if (status === 2) throw new Error(`tether tools call ${name}: ${stderr}`);
  return JSON.parse(stdout);
}
