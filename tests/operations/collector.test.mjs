// A real OpenTelemetry collector reads the traces and the metrics that it is sent.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { REPOSITORY } from '../lib/binary.mjs';
import { CHAT_STREAM, startGateway } from '../lib/gateway.mjs';
import { freePorts } from '../lib/programs.mjs';

const ROTEL = process.env.ROTEL ?? path.join(REPOSITORY, 'tests/.cache/python-operations/rotel/rotel-agent');
const skip = !existsSync(ROTEL) && 'rotel is not there';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

/** A collector that writes down what it has read, as long as the test lives. */
class Collector {
  written = '';
  #child;

  static async start(t) {
    const [http, grpc] = await freePorts(2);
    const folder = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
    const collector = new Collector();
    collector.endpoint = `http://127.0.0.1:${http}`;
    collector.#child = spawn(ROTEL, [
      'start', '--exporter', 'blackhole',
      '--debug-log', 'traces', '--debug-log', 'metrics', '--debug-log-verbosity', 'detailed',
      '--otlp-http-endpoint', `127.0.0.1:${http}`, '--otlp-grpc-endpoint', `127.0.0.1:${grpc}`,
    ], { cwd: folder });
    for (const stream of [collector.#child.stdout, collector.#child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => { collector.written += text; });
    }
    t.after(async () => {
      const exited = once(collector.#child, 'close');
      collector.#child.kill('SIGKILL');
      await exited;
      await rm(folder, { recursive: true });
    });
    await collector.until(() => fetch(collector.endpoint).then(() => true, () => false));
    return collector;
  }

  async until(condition) {
    while (!await condition()) {
      assert.equal(this.#child.exitCode, null, this.written);
      await sleep(20);
    }
  }

  /** What was written about each span or metric. */
  parts(kind) {
    return this.written.split(new RegExp(`^${kind} #\\d+$`, 'm')).slice(1);
  }
}

const field = (part, name) => part.match(new RegExp(`^ *${name} *: (.*)$`, 'm'))?.[1];

test('a collector reads the spans of a turn and its histograms', { skip }, async (t) => {
  const collector = await Collector.start(t);
  const otlp = { endpoint: collector.endpoint, service_name: 'gw', metrics_interval_sec: 0.2 };
  const gateway = await startGateway(t, { telemetry: { otlp } });
  const answer = await fetch(gateway.origin + CHAT_STREAM, {
    method: 'POST',
    headers: { traceparent: `00-${TRACE}-${PARENT}-01` },
    body: JSON.stringify({ prompt: 'What is 17 * 23?' }),
  });
  assert.match(await answer.text(), /391/);

  await collector.until(() => collector.parts('Span').length === 4);
  const spans = collector.parts('Span');
  const named = (name) => spans.filter((span) => field(span, 'Name') === name);
  const [turn] = named('invoke_agent tether');
  const below = [...named('chat embedded'), ...named('execute_tool calculate')];
  assert.equal(below.length, 3);
  assert.deepEqual(spans.map((span) => field(span, 'Trace ID')), Array(4).fill(TRACE));
  assert.equal(field(turn, 'Parent ID'), PARENT);
  assert.deepEqual(below.map((span) => field(span, 'Parent ID')), Array(3).fill(field(turn, 'ID')));
  assert.match(turn, /-> gen_ai\.agent\.name: Str\(tether\)/);
  assert.match(turn, /-> gen_ai\.usage\.output_tokens: Int\(\d+\)/);
  assert.match(collector.written, /-> service\.name: Str\(gw\)/);

  const measured = () => collector.parts('Metric').filter((metric) => field(metric, '-> Name') === 'gen_ai.execute_tool.duration');
  await collector.until(() => measured().length > 0);
  const [metric] = measured();
  assert.match(metric, /DataType: Histogram/);
  assert.match(metric, /Count: 1$/m);
  assert.match(metric, /AggregationTemporality: .*cumulative/i);
});
