// `packaging/release`: the archive has what users need, and is the same each time.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';

import { BINARY, REPOSITORY } from '../lib/binary.mjs';

const run = (command, ...args) => execFileSync(command, args, { cwd: REPOSITORY, encoding: 'utf8' });
const folder = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
after(() => rm(folder, { recursive: true }));
// Most of a debug build is symbols.
const small = path.join(folder, 'small');
execFileSync('strip', ['-o', small, path.resolve(BINARY)]);

/** The archive of this binary. */
const pack = () => run('packaging/release', '--bin', small, '--out', folder).trim().split('\n').at(-1);

test('an archive has the binary and what goes with it, and its checksum', async () => {
  const archive = pack();
  const [name] = path.basename(archive).split('.tar.gz');
  run('tar', '--extract', '--gzip', '--file', archive, '--directory', folder);
  const own = path.join(folder, name);
  const version = run(path.join(own, 'tether'), '--version');
  assert.match(name, new RegExp(`^tether-${version.split(' ')[1].replaceAll('.', '\\.')}-[a-z0-9_-]+$`));
  for (const file of [
    'README.md', 'CHANGELOG.md', 'LICENSE-APACHE', 'LICENSE-MIT', 'config/default.yml', 'docs/operations.md',
    'examples/systemd/tether.service', 'completions/tether.bash', 'completions/tether.zsh', 'completions/tether.fish',
  ]) {
    assert.ok((await readFile(path.join(own, file), 'utf8')).length > 0, file);
  }
  execFileSync('sha256sum', ['--check', '--status', `${path.basename(archive)}.sha256`], { cwd: path.dirname(archive) });
});

test('packing twice makes the same bytes', async () => {
  const first = await readFile(pack());
  assert.deepEqual(await readFile(pack()), first);
});
