// `examples/cluster`, as its readers start it: three gateways behind nginx, with one Redis.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

import { BINARY, REPOSITORY } from '../lib/binary.mjs';
import { readFrames, readOpenFrames, textOf } from '../lib/frames.mjs';
import { CHAT_STREAM, turn } from '../lib/gateway.mjs';
import { startModel } from '../lib/model.mjs';
import { freePorts, program } from '../lib/programs.mjs';

const LEASE_SEC = 1;
const COMMAND = path.join(REPOSITORY, 'examples/cluster/run');

const ENVIRONMENT = {
  ...process.env,
  TETHER_BIN: BINARY,
  REDIS_SERVER: process.env.REDIS_SERVER ?? program('redis-server', 'redis'),
  NGINX: process.env.NGINX ?? program('nginx', 'nginx'),
  LEASE_SEC,
};

/** Starts the example in front of a model with this script. `end` stops it, if the test does not. */
async function startCluster(t, script, end = (child) => child.kill('SIGINT')) {
  const upstream = await startModel(t, script);
  const state = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  const [port, redis, ...gateways] = await freePorts(5);
  const child = spawn(COMMAND, [
    '--port', port, '--redis-port', redis, '--gateway-ports', gateways.join(), '--state', state,
    '--upstream', upstream.base_url, '--model', upstream.model,
  ], { env: ENVIRONMENT });
  const closed = once(child, 'close');
  const cluster = new Cluster(child, state, `http://127.0.0.1:${port}`, gateways);
  t.after(async () => {
    const pids = await cluster.pids();
    await end(child, state);
    assert.deepEqual(await closed, [0, null], cluster.complaint);
    assert.deepEqual(pids.filter(isAlive), [], 'it has ended what it started');
    for (const used of [port, redis, ...gateways]) await assert.rejects(connected(used), { code: 'ECONNREFUSED' });
    await rm(state, { recursive: true });
  });
  await Promise.race([cluster.says(/^ *stop/), closed]);
  assert.equal(child.exitCode, null, cluster.complaint);
  return cluster;
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function connected(port) {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.destroy();
}

class Cluster {
  complaint = '';
  #lines = [];
  #spoke = [];

  constructor(child, state, origin, gateways) {
    Object.assign(this, { child, state, origin, gateways });
    child.stderr.setEncoding('utf8').on('data', (text) => { this.complaint += text; });
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.#lines.push(line);
      for (const spoke of this.#spoke.splice(0)) spoke();
    });
  }

  /** Waits until a line of its output is like this. */
  async says(pattern) {
    while (!this.#lines.some((line) => pattern.test(line))) {
      await new Promise((resolve) => { this.#spoke.push(resolve); });
    }
  }

  /** The processes that it has started, and itself. */
  async pids() {
    const files = (await readdir(this.state)).filter((name) => name.endsWith('.pid'));
    return Promise.all(files.map(async (name) => Number(await readFile(path.join(this.state, name), 'utf8'))));
  }

  async pid(gateway) {
    const number = 1 + this.gateways.indexOf(gateway);
    return Number(await readFile(path.join(this.state, `gateway-${number}.pid`), 'utf8'));
  }

  /** A request through nginx that has to succeed. Returns the answer, and the port of the gateway that gave it. */
  async ask(address, init) {
    const response = await fetch(this.origin + address, init);
    assert.ok(response.ok, `${address}: ${response.status} ${response.ok ? '' : await response.text()}`);
    return { response, gateway: Number(response.headers.get('x-served-by').match(/\d+$/)) };
  }

  async begin(prompt) {
    return new Reader(this, await this.ask(CHAT_STREAM, turn(prompt)));
  }
}

/** Reads a turn as an `EventSource` does, except that it does not wait before it re-joins. */
class Reader {
  /** How many gateways the turn may have had. */
  epochs = 1;
  rejoined = 0;
  #bytes = Buffer.alloc(0);

  constructor(cluster, { response, gateway }, location = response.headers.get('location')) {
    Object.assign(this, { cluster, gateway, location, body: response.body.getReader() });
  }

  /** The frames until `isEnough`, which is asked after each part that arrives, or until the turn's end. */
  async read(isEnough = () => false) {
    let frames = this.#frames();
    while (!isEnough(frames) && !/^turn_(completed|failed)$/.test(frames.at(-1)?.event)) {
      const { value, done } = await this.body.read().catch(() => ({ done: true }));
      if (done) await this.#rejoin(frames.at(-1).id);
      else this.#bytes = Buffer.concat([this.#bytes, value]);
      frames = this.#frames();
    }
    return frames;
  }

  upTo(text) {
    return this.read((frames) => textOf(frames).endsWith(text));
  }

  get #whole() {
    const last = this.#bytes.lastIndexOf('\n\n');
    return this.#bytes.subarray(0, last === -1 ? 0 : last + 2);
  }

  #frames() {
    return readOpenFrames(this.#whole, { epochs: this.epochs });
  }

  async #rejoin(last) {
    // Half a frame comes again.
    this.#bytes = this.#whole;
    const { response, gateway } = await this.cluster.ask(this.location, { headers: { 'last-event-id': last } });
    assert.equal(response.status, 200);
    Object.assign(this, { body: response.body.getReader(), gateway });
    this.rejoined += 1;
  }
}

const ending = (frames) => JSON.parse(frames.at(-1).data).data.finish_reason;

/** A message that waits for `letGo` after its words. */
function held(say) {
  const message = { say };
  message.holds = new Promise((resolve) => { message.letGo = resolve; });
  return message;
}

test('a turn streams through nginx', async (t) => {
  const message = held('One');
  // Ends with the end of its input.
  const cluster = await startCluster(t, [message], (child) => child.stdin.end());
  const reader = await cluster.begin('Count.');
  // The model has not finished: it waits for this reader.
  await reader.upTo('One');
  message.letGo();
  assert.equal(ending(await reader.read()), 'stop');
});

test('a cancellation reaches a turn of another gateway', async (t) => {
  const message = held('One');
  const left = new Promise((resolve) => { message.left = resolve; });
  // Ends by `--stop`.
  const cluster = await startCluster(t, [message], async (_, state) => {
    const [status] = await once(spawn(COMMAND, ['--stop', '--state', state], { stdio: 'inherit' }), 'close');
    assert.equal(status, 0);
  });
  const reader = await cluster.begin('Count.');
  await reader.upTo('One');
  const body = JSON.stringify({ session_id: new URLSearchParams(reader.location.split('?')[1]).get('session_id') });
  const { response, gateway } = await cluster.ask('/api/v1/chat/cancel', { method: 'POST', body });
  assert.equal(response.status, 202);
  assert.notEqual(gateway, reader.gateway, 'nginx has sent it to the next one');
  assert.equal(ending(await reader.read()), 'cancelled');
  await left;
});

test('a turn goes on when its gateway is killed in the middle of a word', async (t) => {
  const WORDS = 'Half a word, and the rest.';
  const cluster = await startCluster(t, [WORDS, held('Half a wo'), 'rd, and the rest.']);
  const undisturbed = textOf(await (await cluster.begin('Say it.')).read());
  assert.equal(undisturbed, WORDS);

  const reader = await cluster.begin('Say it.');
  await reader.upTo('Half a wo');
  const owner = reader.gateway;
  reader.epochs = 2;
  const seen = (await reader.read(() => true)).length;
  process.kill(await cluster.pid(owner), 'SIGKILL');
  const killedAt = performance.now();
  await reader.read((frames) => frames.length > seen);
  const pauseMs = Math.round(performance.now() - killedAt);
  const frames = await reader.read();

  assert.equal(textOf(frames), undisturbed);
  assert.equal(ending(frames), 'stop');
  assert.notEqual(reader.gateway, owner);
  assert.ok(reader.rejoined > 0);
  assert.ok(frames.at(-1).id.startsWith('2-'), 'another epoch');
  t.diagnostic(`${pauseMs} ms from kill -9 to the next event, with lease_sec: ${LEASE_SEC}`);
  // The whole turn again, from any gateway.
  const { response } = await cluster.ask(reader.location);
  const again = readFrames(Buffer.from(await response.arrayBuffer()), { epochs: 2 });
  assert.deepEqual(again, frames);
});

test('gateways are restarted one after another, and no client sees an error', async (t) => {
  const running = ['One', 'Two', 'Three'].map((say) => held(say));
  const cluster = await startCluster(t, [...running, ...Array(18).fill('Fine.')]);
  // A turn on each gateway, with a second reader on another one.
  const [owners, readers] = [[], []];
  for (const { say } of running) {
    const reader = await cluster.begin('Count.');
    await reader.upTo(say);
    owners.push(reader.gateway);
    readers.push(reader);
  }
  assert.deepEqual([...owners].sort(), [...cluster.gateways].sort());
  for (const [at, { say }] of running.entries()) {
    const { location } = readers[at];
    let asked = await cluster.ask(location);
    if (asked.gateway === owners[at]) {
      await asked.response.body.cancel();
      asked = await cluster.ask(location);
    }
    const elsewhere = new Reader(cluster, asked, location);
    await elsewhere.upTo(say);
    readers.push(elsewhere);
  }
  const ends = readers.map((reader) => reader.read());

  cluster.child.stdin.write('\n');
  for (const [at, gateway] of cluster.gateways.entries()) {
    await isDraining(gateway);
    // nginx asks it in its turn, and it refuses.
    for (let asked = 0; asked < 6; asked += 1) {
      const reader = await cluster.begin('How are you?');
      assert.notEqual(reader.gateway, gateway);
      assert.equal(textOf(await reader.read()), 'Fine.');
    }
    running[owners.indexOf(gateway)].letGo();
    await cluster.says(new RegExp(`^gateway ${at + 1} has been restarted`));
  }
  assert.deepEqual((await Promise.all(ends)).map(ending), Array(6).fill('stop'));
  t.diagnostic(`re-joins of the readers: ${readers.map(({ rejoined }) => rejoined)}`);
});

/** Waits until a gateway says that it is about to stop. */
async function isDraining(gateway) {
  for (;;) {
    // Idle connections end when it begins to drain.
    const answer = await fetch(`http://127.0.0.1:${gateway}/readyz`, { headers: { connection: 'close' } });
    if ((await answer.json()).status === 'draining') return;
  }
}

test('what is missing or taken is named, and nothing is left behind', async (t) => {
  const state = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  t.after(() => rm(state, { recursive: true }));
  const start = async (ports, env = {}) => {
    const child = spawn(COMMAND, [...ports, '--state', state], { env: { ...ENVIRONMENT, ...env } });
    const [complaint, [status]] = await Promise.all([text(child.stderr), once(child, 'close')]);
    assert.equal(status, 1);
    assert.deepEqual((await readdir(state)).filter((name) => name.endsWith('.pid')), []);
    return complaint;
  };
  assert.match(await start([], { NGINX: 'no-such-program' }), /no-such-program is not there: install it/);

  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.after(() => taken.close());
  const [redis, one, three] = await freePorts(3);
  const gateways = [one, taken.address().port, three].join();
  assert.match(await start(['--redis-port', redis, '--gateway-ports', gateways]), /gateway-2 did not start/);
  for (const used of [redis, one, three]) await assert.rejects(connected(used), { code: 'ECONNREFUSED' });
});
