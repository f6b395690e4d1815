// What the conformance suite starts as the client under test: `tether tools` and `tether tools call`
// against the server at the address that it gives.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { BINARY } from '../lib/binary.mjs';
import { sample } from '../lib/sample.mjs';

const url = process.argv.at(-1);
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const directory = mkdtempSync(path.join(tmpdir(), 'tether-conformance-'));
const file = path.join(directory, 'tether.yml');

const entry = { name: 'suite', url, prefix: '', trust: true };
if (context.client_id) {
  const { client_id, client_secret, private_key_pem, signing_algorithm = 'ES256' } = context;
  const proof = client_secret ? { client_secret } : { private_key_pem, signing_algorithm };
  entry.auth = { client_id, ...proof, allow_private: ['127.0.0.0/8', '::1'] };
}
writeFileSync(file, JSON.stringify({ tools: { builtin: [], mcp: [entry] } }));

function tether(...args) {
  const { status, stdout, stderr } = spawnSync(BINARY, [...args, '--config', file], { encoding: 'utf8' });
  console.error(`tether ${args.join(' ')}: status ${status}\n${stdout}${stderr}`);
  return { status, stdout };
}

/** The calls that the scenario wants, or else one of each tool. */
function calls(tools) {
  if (context.toolCalls) return context.toolCalls;
  return tools.map(({ name, parameters }) => {
    if (name !== 'json_schema_echo') return { name, arguments: sample(parameters, true) };
    const focal = tools.find((tool) => tool.name !== name);
    return { name, arguments: { schema: focal.parameters } };
  });
}

const listed = tether('tools');
if (listed.status !== 0) process.exit(1);
for (const call of calls(JSON.parse(listed.stdout).tools)) {
  tether('tools', 'call', call.name, JSON.stringify(call.arguments ?? {}), '--answer', 'accept');
}
rmSync(directory, { recursive: true });
