// `examples/grafana`: the dashboard and the alert rules ask for metrics that there are, in PromQL that
// Prometheus reads. `alerts_test.yml` says when each rule fires.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { REPOSITORY } from '../lib/binary.mjs';
import { program } from '../lib/programs.mjs';

const RULES = path.join(REPOSITORY, 'examples/grafana/alerts.yml');
const PROMTOOL = process.env.PROMTOOL ?? program('promtool', 'promtool');
const skip = spawnSync(PROMTOOL, ['--version']).error && 'promtool is not there';

const read = (file) => readFile(path.join(REPOSITORY, file), 'utf8');
const [documented, rules, rulesTest] =
  await Promise.all(['docs/metrics.md', 'examples/grafana/alerts.yml', 'tests/operations/alerts_test.yml'].map(read));
const dashboard = JSON.parse(await read('examples/grafana/dashboard.json'));
const queries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

/** The metrics that a text names; the buckets, the sum and the count of a histogram are parts of it. */
function metrics(text) {
  return new Set(text.match(/\btether_[a-z_]+/g).map((name) => name.replace(/_(bucket|sum|count)$/, '')));
}

/** Runs promtool on a file with this text. */
async function promtool(t, command, text) {
  const folder = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'input.yml');
  await writeFile(file, text);
  const { status, stdout, stderr } = spawnSync(PROMTOOL, [...command, file], { encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
}

test('the dashboard shows every metric, and no other', () => {
  assert.deepEqual([...metrics(queries.join('\n'))].sort(), [...metrics(documented)].sort());
});

test('the rules ask for metrics that there are', () => {
  const known = metrics(documented);
  assert.deepEqual([...metrics(rules)].filter((name) => !known.has(name)), []);
});

test('histograms are read by their buckets, sums and counts', () => {
  const histograms = [...documented.matchAll(/^\| `(\w+)` \| histogram/gm)].map(([, name]) => name);
  assert.ok(histograms.length > 5);
  const asked = [...queries, rules].join('\n').match(/\btether_[a-z_]+/g);
  assert.deepEqual(histograms.filter((name) => asked.includes(name)), []);
});

test('each alert says what is wrong and what to do, and is tested', () => {
  const alerts = rules.split('- alert: ').slice(1);
  assert.ok(alerts.length > 10);
  for (const alert of alerts) {
    const [name] = alert.split('\n');
    for (const key of ['severity: ', 'summary: "', 'description: ']) assert.ok(alert.includes(key), `${name}: ${key}`);
    assert.ok(rulesTest.includes(`"${name}"`), `${name} is tested`);
  }
});

test('Prometheus reads the rules, and they fire when they should', { skip }, async (t) => {
  await promtool(t, ['check', 'rules'], rules);
  await promtool(t, ['test', 'rules'], rulesTest.replace('RULES', RULES));
});

test('Prometheus reads the queries of the dashboard', { skip }, async (t) => {
  const variables = { $instance: '.*', $__rate_interval: '1m' };
  const plain = queries.map((query) => query.replaceAll(/\$\w+/g, (name) => variables[name]));
  const recorded = plain.map((expr, at) => ({ record: `query_${at}`, expr }));
  // JSON is YAML.
  await promtool(t, ['check', 'rules'], JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }));
});
