// Readers of event streams below the clients: a recorded stream of each API, cut at every byte, gives
// the same events as the whole.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { json } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { runHttpRequest, transformHttpEventStream } from '@ag-ui/client';
import { fetchEventSource } from '@microsoft/fetch-event-source';
import { parseJsonEventStream, uiMessageChunkSchema } from 'ai';
import { createParser as createParser4 } from 'eventsource-parser';
import { createParser as createParser3 } from 'eventsource-parser-3';
import { Stream } from 'openai/streaming';

import { KEEP_ALIVE, readFrames } from '../lib/frames.mjs';
import { CHAT_STREAM, startGateway } from '../lib/gateway.mjs';
import { call, startModel } from '../lib/model.mjs';

// Short, since every byte is a case.
const SCRIPT = [`<think>Zoë?</think>${call('calculate', { expression: '6*7' })}`, 'It is 🦀.'];
const user = [{ role: 'user', content: 'Go.' }];

/** Where a turn of each API begins, and with what. */
const REQUESTS = {
  native: [CHAT_STREAM, { prompt: 'Go.' }],
  'Chat Completions': ['/v1/chat/completions', {
    model: 'script', messages: user, stream: true, stream_options: { include_usage: true }, tether: { server_tools: 'extension' },
  }],
  Responses: ['/v1/responses', { model: 'script', input: 'Go.', stream: true }],
  Messages: ['/v1/messages', { model: 'script', max_tokens: 99, messages: user, stream: true }],
  'AI SDK': ['/api/v1/ai-sdk/chat', { messages: [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'Go.' }] }] }],
  'AG-UI': ['/api/v1/ag-ui', { threadId: 't', runId: 'r', messages: [{ id: 'u', ...user[0] }] }],
};
const APIS = Object.keys(REQUESTS);
const PYTHON = fileURLToPath(new URL('readers.py', import.meta.url));

/** What each reader makes of the bytes of a response that come in these pieces. */
const READERS = {
  'eventsource-parser 3': { apis: APIS, read: (pieces) => parse(createParser3, pieces) },
  'eventsource-parser 4': { apis: APIS, read: (pieces) => parse(createParser4, pieces) },
  '@microsoft/fetch-event-source': { apis: ['native'], read: fetched },
  'openai for Node': { apis: ['Chat Completions', 'Responses'], read: (pieces) => collect(Stream.fromSSEResponse(arriving(pieces), new AbortController())) },
  ai: { apis: ['AI SDK'], read: parts },
  '@ag-ui/client': { apis: ['AG-UI'], read: agUiEvents },
};
/** Those of readers.py. */
const PYTHON_READERS = {
  'httpx-sse': APIS,
  'openai for Python': ['Chat Completions', 'Responses'],
  'anthropic for Python': ['Messages'],
};

function parse(createParser, pieces) {
  const events = [];
  const parser = createParser({
    onEvent: ({ id, event, data }) => events.push({ id, event, data }),
    onError: (error) => { throw error; },
  });
  const decoder = new TextDecoder();
  for (const piece of pieces) parser.feed(decoder.decode(piece, { stream: true }));
  return events;
}

// It was written for browsers and looks for their globals.
globalThis.window = globalThis;
globalThis.document = new EventTarget();

async function fetched(pieces) {
  const events = [];
  await fetchEventSource('http://gateway', {
    fetch: () => arriving(pieces),
    openWhenHidden: true,
    onmessage: ({ id, event, data }) => events.push({ id, event, data }),
    onerror: (error) => { throw error; },
  });
  return events;
}

async function parts(pieces) {
  const read = await collect(parseJsonEventStream({ stream: arriving(pieces).body, schema: uiMessageChunkSchema }));
  return read.map(({ success, value, error }) => { assert.ok(success, error); return value; });
}

function agUiEvents(pieces) {
  return new Promise((resolve, reject) => {
    const events = [];
    transformHttpEventStream(runHttpRequest(async () => arriving(pieces)))
      .subscribe({ next: (event) => events.push(event), error: reject, complete: () => resolve(events) });
  });
}

/** A response whose body comes in these pieces. */
function arriving(pieces) {
  const body = new ReadableStream({
    start: (controller) => {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
}

async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

const oneByOne = (bytes) => Array.from(bytes, (byte) => Uint8Array.of(byte));

/** The data of events as objects. */
const objects = (frames) => frames.map(({ data }) => data).filter((data) => data !== '[DONE]').map((data) => JSON.parse(data));

/** The comments that are keep-alives; those of Chat Completions are chunks like any others. */
const KEEP_ALIVES = { native: KEEP_ALIVE, 'Chat Completions': '', Responses: ':\n' };

/** The bytes of a turn, with a comment wherever the API sends keep-alives: between any two frames. */
async function record(t, api) {
  const [address, request] = REQUESTS[api];
  const upstream = await startModel(t, SCRIPT);
  const gateway = await startGateway(t, { upstreams: [upstream], messages: { server_tools: 'mcp_tool_use' } });
  const response = await fetch(gateway.origin + address, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.ok(bytes.includes('🦀'), 'beyond ASCII');
  const frames = parse(createParser4, [bytes]);
  if (api === 'native') assert.deepEqual(frames, readFrames(bytes));
  const keepAlive = KEEP_ALIVES[api] ?? ':\n\n';
  return { frames, bytes: Buffer.from(bytes.toString().replaceAll('\n\n', `\n\n${keepAlive}`)) };
}

/** Checks a reader in this process. */
async function checkHere(read, { frames, bytes }) {
  const whole = await read([bytes]);
  assert.deepEqual(whole, whole[0].data ? frames : objects(frames));
  assert.deepEqual(await read(oneByOne(bytes)), whole, 'a byte at a time');
  const wanted = JSON.stringify(whole);
  for (let at = 1; at < bytes.length; at += 1) {
    const events = await read([bytes.subarray(0, at), bytes.subarray(at)]);
    assert.equal(JSON.stringify(events), wanted, `cut at ${at}`);
  }
}

async function checkInPython(name, { frames, bytes }) {
  const child = spawn('python3', [PYTHON, name], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(bytes);
  const { events, different } = await json(child.stdout);
  // Anthropic's SDK keeps pings to itself.
  const isShown = ({ type }) => type !== 'ping' || name !== 'anthropic for Python';
  assert.deepEqual(events, objects(frames).filter(isShown));
  assert.deepEqual(different, [], 'where it was cut');
}

for (const api of APIS) {
  test(`${api}, cut at every byte`, { concurrency: true }, async (t) => {
    const recorded = await record(t, api);
    const readers = [
      ...Object.entries(READERS).map(([name, { apis, read }]) => [name, apis, () => checkHere(read, recorded)]),
      ...Object.entries(PYTHON_READERS).map(([name, apis]) => [name, apis, () => checkInPython(name, recorded)]),
    ];
    await Promise.all(readers.filter(([, apis]) => apis.includes(api)).map(([name, , check]) => t.test(name, check)));
  });
}
