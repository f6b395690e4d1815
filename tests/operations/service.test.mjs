// `examples/systemd`: the unit is valid, protects what it can, and fits the gateway's own limits.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { BINARY, REPOSITORY } from '../lib/binary.mjs';

/** Tenths of systemd's scale of exposure, from 0 to 100. */
const EXPOSURE_MAX = '15';
/** What a gateway takes after its turns have ended, in seconds. */
const CLOSING_SEC = 20;
const CONNECTIONS_MAX = 12_000;

const read = (file) => readFile(path.join(REPOSITORY, file), 'utf8');
const UNIT = await read('examples/systemd/tether.service');
const value = (key) => UNIT.match(new RegExp(`^${key}=(.*)$`, 'm'))?.[1];
const skip = spawnSync('systemd-analyze', ['--version']).error && 'systemd-analyze is not there';

test('systemd finds no fault, and little exposure', { skip }, async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'tether.service');
  await writeFile(file, UNIT.replace('/usr/local/bin/tether', path.resolve(BINARY)));
  const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], { encoding: 'utf8' });
  // It may also complain of units of this machine.
  assert.deepEqual(stderr.split('\n').filter((line) => line.includes('tether.service')), []);
  execFileSync('systemd-analyze', ['security', '--offline=true', `--threshold=${EXPOSURE_MAX}`, file]);
});

test('it waits for the drain, and has room for all streams', async () => {
  const [, drain] = (await read('config/default.yml')).match(/drain_timeout_sec: (\d+)/);
  assert.ok(value('TimeoutStopSec') >= Number(drain) + CLOSING_SEC);
  assert.ok(value('LimitNOFILE') > 2 * CONNECTIONS_MAX);
  assert.equal(value('KillMode'), 'mixed', 'tools outlive the request to stop');
});
