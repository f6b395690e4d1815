// `docs/dependencies.md` has a row for each crate that Cargo.toml names, and no other.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';

import { REPOSITORY } from '../lib/binary.mjs';

const read = (file) => readFile(path.join(REPOSITORY, file), 'utf8');

test('every direct dependency has a row', async () => {
  const sections = (await read('Cargo.toml')).split(/^\[/m);
  const lines = sections
    .filter((section) => /^(target\..*\.)?dependencies\]/.test(section))
    .flatMap((section) => section.match(/^[\w-]+ = .*/gm));
  const named = lines.map((line) => line.match(/package = "([^"]+)"/)?.[1] ?? line.split(' ')[0]);
  const direct = (await read('docs/dependencies.md')).split(/^## /m).find((part) => part.startsWith('Direct'));
  const rows = [...direct.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);
  assert.deepEqual(rows.sort(), named.sort());
});
