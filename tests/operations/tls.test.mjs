// `server.tls`, as curl and openssl see it.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';

import { readFrames, textOf } from '../lib/frames.mjs';
import { CHAT_STREAM, startGateway } from '../lib/gateway.mjs';

const folder = mkdtempSync(path.join(tmpdir(), 'tether-test-'));
after(() => rmSync(folder, { recursive: true }));
const [CERTIFICATE, KEY] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));

/** As the manuals of openssl and the usual tutorials make them. */
function makeCertificate(...kind) {
  execFileSync('openssl', [
    'req', '-x509', '-newkey', ...kind, '-nodes', '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost', '-keyout', KEY, '-out', CERTIFICATE,
  ], { stdio: 'ignore' });
}

const start = (t) => startGateway(t, { server: { tls: { cert: CERTIFICATE, key: KEY } } });

/** Runs a program to its end. */
async function run(program, args, input = '') {
  const child = spawn(program, args);
  let output = Buffer.alloc(0);
  let errors = '';
  child.stdout.on('data', (chunk) => { output = Buffer.concat([output, chunk]); });
  child.stderr.setEncoding('utf8').on('data', (text) => { errors += text; });
  child.stdin.end(input);
  const [status] = await once(child, 'close');
  return { status, output, errors };
}

function curl(gateway, ...args) {
  const resolve = ['--resolve', `localhost:${gateway.port}:127.0.0.1`];
  const url = `https://localhost:${gateway.port}${CHAT_STREAM}`;
  return run('curl', ['--no-buffer', '--silent', '--cacert', CERTIFICATE, ...resolve, url, ...args]);
}

const KINDS = { 'an elliptic curve': ['ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'], RSA: ['rsa:2048'] };

for (const [name, kind] of Object.entries(KINDS)) {
  test(`curl streams a turn over both protocols, with ${name}`, async (t) => {
    makeCertificate(...kind);
    const gateway = await start(t);
    assert.match(gateway.origin, /^https:/);
    for (const [option, version] of [['--http2', '2'], ['--http1.1', '1.1']]) {
      const prompt = JSON.stringify({ prompt: 'Count to 3' });
      const asked = await curl(gateway, option, '-d', prompt, '-w', '%{stderr}%{http_version}');
      assert.deepEqual([asked.status, asked.errors], [0, version]);
      const frames = readFrames(asked.output);
      assert.equal(frames.at(-1).event, 'turn_completed');
      assert.match(textOf(frames), /1.*2.*3/s);
    }
  });
}

test('TLS 1.2 and 1.3 are spoken, and nothing older', async (t) => {
  makeCertificate(...KINDS['an elliptic curve']);
  const gateway = await start(t);
  for (const [version, isSpoken] of [['tls1_3', true], ['tls1_2', true], ['tls1_1', false]]) {
    const args = ['s_client', '-connect', `127.0.0.1:${gateway.port}`, `-${version}`, '-cipher', 'ALL:@SECLEVEL=0'];
    const { status, output } = await run('openssl', args);
    assert.equal(status === 0 && /Cipher is [^(]/.test(output), isSpoken, `${version}: ${output}`);
  }
});
