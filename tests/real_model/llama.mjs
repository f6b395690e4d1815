// A real llama.cpp server for one test.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SERVER = fileURLToPath(new URL('server.py', import.meta.url));
const LISTENING = 'listening ';
// What it may take from the end of a connection to the end of its generation.
const IDLE_WITHIN_MS = 10_000;

/** With it the server reads calls itself; the model's own template knows no tools. */
export const TOOLS_TEMPLATE = fileURLToPath(new URL('tools.jinja', import.meta.url));

/** Starts a server that lives as long as the test `t`. */
export async function startLlama(t, { template, context } = {}) {
  const options = [...(template ? ['--template', template] : []), ...(context ? ['--context', `${context}`] : [])];
  const child = spawn('python3', [SERVER, '--slots', '1', ...options], { stdio: 'pipe' });
  const exited = once(child, 'close');
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { log += text; });
  const llama = new Llama(child, exited);
  t.after(() => llama.kill());

  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith(LISTENING)) {
      llama.origin = line.slice(LISTENING.length);
      return llama;
    }
  }
  await exited;
  throw new Error(`llama.cpp's server did not start:\n${log}`);
}

class Llama {
  #child;
  #exited;

  constructor(child, exited) {
    this.#child = child;
    this.#exited = exited;
  }

  /** Ends it without a word to anybody; over when its sockets are. */
  async kill() {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  /** How many tokens a text is to the model. */
  async tokens(text) {
    const body = JSON.stringify({ content: text });
    const response = await fetch(`${this.origin}/tokenize`, { method: 'POST', body });
    return (await response.json()).tokens.length;
  }

  /** Whether it works on a request. */
  async isBusy() {
    const response = await fetch(`${this.origin}/metrics`);
    const working = (await response.text()).match(/^llamacpp:requests_processing (\d+)$/m);
    assert.ok(working, 'the server counts its requests');
    return working[1] !== '0';
  }

  /** Waits for its generation to end, which must be soon. It answers between two tokens. */
  async idle() {
    const latest = performance.now() + IDLE_WITHIN_MS;
    while (await this.isBusy()) {
      assert.ok(performance.now() < latest, `it still works after ${IDLE_WITHIN_MS} ms`);
    }
  }
}
