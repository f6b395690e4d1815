// The real binary for one test: on a port of its own, with the embedded model.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
const TARGET = path.resolve(REPOSITORY, process.env.CARGO_TARGET_DIR ?? 'target');
const BINARY = process.env.TETHER_BIN ?? path.join(TARGET, 'debug', 'tether');

export const CHAT_STREAM = '/api/v1/chat/stream';

/** A pace at which the model does not count. */
export const AT_ONCE = 100_000;

/**
 * Starts a gateway that lives as long as the test `t`. `sections` are merged over the
 * configuration; JSON is YAML, so a file needs no other writer.
 */
export async function startGateway(t, { tokensPerSec = 200, ...sections } = {}) {
  const directory = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  const file = path.join(directory, 'tether.yml');
  const config = {
    upstreams: [{ name: 'embedded', kind: 'embedded', tokens_per_sec: tokensPerSec }],
    ...sections,
    // A test that is over does not wait for the turns that it left.
    server: { listen: '127.0.0.1:0', drain_timeout_sec: 0, ...sections.server },
  };
  await writeFile(file, JSON.stringify(config));

  const child = spawn(BINARY, ['serve', '--config', file], { stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'close');
  const gateway = new Gateway(child, exited);
  child.stderr.setEncoding('utf8').on('data', (text) => { gateway.log += text; });
  t.after(async () => {
    const [code, signal] = await gateway.stop();
    await rm(directory, { recursive: true });
    if (!gateway.wasKilled) assert.deepEqual([code, signal], [0, null], `the gateway's end:\n${gateway.log}`);
  });

  for await (const line of createInterface({ input: child.stdout })) {
    const origin = line.match(/https?:\/\/[^/ ]+/)?.[0];
    if (origin) {
      gateway.origin = origin;
      return gateway;
    }
  }
  await exited;
  throw new Error(`${BINARY} did not start:\n${gateway.log}`);
}

class Gateway {
  /** What it has written to standard error. */
  log = '';
  wasKilled = false;
  #child;
  #exited;

  constructor(child, exited) {
    this.#child = child;
    this.#exited = exited;
  }

  get port() {
    return Number(new URL(this.origin).port);
  }

  /** Ends it without a word to anybody. */
  kill() {
    this.wasKilled = true;
    this.#child.kill('SIGKILL');
  }

  async stop() {
    this.#child.kill('SIGTERM');
    return this.#exited;
  }

  /** Begins a turn; the answer is a `Response` whose body streams. */
  async begin(prompt, init = {}) {
    const response = await fetch(this.origin + CHAT_STREAM, { ...turn(prompt), ...init });
    assert.equal(response.status, 200, `${prompt}: ${response.status}`);
    return response;
  }

  /** Begins a turn, leaves it at once, and returns the path that re-joins it. */
  async beginAndLeave(prompt) {
    const leaving = new AbortController();
    const response = await this.begin(prompt, { signal: leaving.signal });
    leaving.abort();
    return response.headers.get('location');
  }

  /** The bytes of a whole turn. */
  async bytesOf(prompt) {
    return bytes(await this.begin(prompt));
  }

  /** The bytes of a turn as they are kept, to its end. */
  async replay(location) {
    const response = await fetch(this.origin + location);
    assert.equal(response.status, 200);
    return bytes(response);
  }
}

/** The request that begins a turn, as `fetch` takes it. */
export function turn(prompt) {
  return {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt }),
  };
}

async function bytes(response) {
  return Buffer.from(await response.arrayBuffer());
}
