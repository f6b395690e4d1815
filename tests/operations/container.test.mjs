// `examples/container`: what the image is built from is complete, and its compiler is new enough.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cp, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { REPOSITORY } from '../lib/binary.mjs';

const read = (file) => readFile(path.join(REPOSITORY, file), 'utf8');

test('cargo finds every file that it wants among those that .dockerignore lets through', async (t) => {
  const ignored = (await read('.dockerignore')).split('\n').filter((line) => line && !line.startsWith('#'));
  assert.equal(ignored.shift(), '*');
  const folder = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  t.after(() => rm(folder, { recursive: true }));
  const there = await readdir(REPOSITORY);
  for (const line of ignored) {
    assert.match(line, /^!/);
    const [name, starred] = line.slice(1).split('*');
    const files = starred === undefined ? [name] : there.filter((file) => file.startsWith(name));
    for (const file of files) await cp(path.join(REPOSITORY, file), path.join(folder, file), { recursive: true });
  }
  execFileSync('cargo', ['metadata', '--no-deps', '--offline', '--format-version', '1'], { cwd: folder });
});

test('the compiler is at least the one that Cargo.toml asks for', async () => {
  const version = (text) => Number(text.match(/(?:rust-version = "|rust:)1\.(\d+)/)[1]);
  assert.ok(version(await read('examples/container/Containerfile')) >= version(await read('Cargo.toml')));
});
