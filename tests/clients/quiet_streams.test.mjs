// Clients that take "a blank line, and an id is known" for an event. A keep-alive with a
// blank line after it gives them empty ones: here they see hundreds of keep-alives.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { fetchEventSource } from '@microsoft/fetch-event-source';

import { KEEP_ALIVE, readFrames, textOf } from '../lib/frames.mjs';
import { CHAT_STREAM, startGateway, turn } from '../lib/gateway.mjs';
import { startProxy } from '../lib/proxy.mjs';

const PROMPT = 'What is 12*7?';
const KEEP_ALIVES_MIN = 20;

/** A model so slow and a gateway so nervous that most of the stream is keep-alives. */
async function startQuietStream(t) {
  const gateway = await startGateway(t, { tokensPerSec: 20, stream: { keep_alive_sec: 0.005 } });
  return startProxy(t, gateway.port);
}

/** The frames that went over the wire, and how many keep-alives between them. */
function carried(proxy) {
  const response = Buffer.concat(proxy.carried[0]).toString();
  const body = response.slice(response.indexOf('\r\n\r\n') + 4);
  const bytes = Buffer.from(unchunk(body));
  return { frames: readFrames(bytes), keepAlives: bytes.toString().split(KEEP_ALIVE).length - 1 };
}

/** The content of a body in HTTP/1.1's chunked coding, which here is ASCII. */
function unchunk(body) {
  let content = '';
  for (let at = 0; ;) {
    const line = body.indexOf('\r\n', at);
    const length = parseInt(body.slice(at, line), 16);
    if (length === 0) return content;
    content += body.slice(line + 2, line + 2 + length);
    at = line + 2 + length + 2;
  }
}

function check(proxy, events) {
  assert.deepEqual(events.filter(({ data }) => data === ''), [], 'no empty events');
  const { frames, keepAlives } = carried(proxy);
  assert.ok(keepAlives >= KEEP_ALIVES_MIN, `${keepAlives} keep-alives`);
  assert.deepEqual(events, frames);
  assert.match(textOf(frames), /84/);
}

describe('keep-alives make no events', { concurrency: true }, () => {
  test('for @microsoft/fetch-event-source', async (t) => {
    // It was written for browsers and looks for their globals.
    globalThis.window = globalThis;
    globalThis.document = new EventTarget();
    const proxy = await startQuietStream(t);
    const events = [];
    await fetchEventSource(proxy.origin + CHAT_STREAM, {
      ...turn(PROMPT),
      openWhenHidden: true,
      onmessage: ({ id, event, data }) => events.push({ id, event, data }),
      onerror: (error) => { throw error; },
    });
    check(proxy, events);
  });

  test('for httpx-sse', async (t) => {
    const proxy = await startQuietStream(t);
    const client = fileURLToPath(new URL('httpx_sse_client.py', import.meta.url));
    const args = [client, proxy.origin + CHAT_STREAM, turn(PROMPT).body];
    const { stdout } = await promisify(execFile)('python3', args);
    check(proxy, stdout.trimEnd().split('\n').map((line) => JSON.parse(line)));
  });
});
