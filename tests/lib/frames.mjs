// The native event stream read as strictly as the contract writes it: what clients forgive
// is a failure here.

import assert from 'node:assert/strict';

export const KEEP_ALIVE = ': keep-alive\n';

/** Every type of event, for clients that have to name what they listen to. */
export const EVENT_TYPES = [
  'turn_started', 'text_delta', 'reasoning_delta', 'tool_marker_detected', 'tool_arguments_delta',
  'acknowledgement', 'tool_started', 'client_tool_call', 'tool_progress', 'tool_completed', 'feedback',
  'clarification_needed', 'status', 'loop_limit_reached', 'turn_completed', 'turn_failed',
];
const LAST_TYPES = ['turn_completed', 'turn_failed'];
const FRAME_BYTES_MAX = 64 * 1024;
const FRAME = /(retry: 2000\n)?id: (([1-9][0-9]*)-([0-9]+))\nevent: ([a-z_]+)\ndata: ([^\n\r\u0085\u2028\u2029]+)\n\n/y;

/**
 * The frames of a stream, from the one after `after` to the turn's end. Throws at the first
 * byte that is not as promised.
 */
export function readFrames(bytes, { after = 0, epochs = 1 } = {}) {
  const frames = readOpenFrames(bytes, { after, epochs });
  assert.ok(LAST_TYPES.includes(frames.at(-1)?.event), `ends with ${frames.at(-1)?.event}`);
  return frames;
}

/** The same for a stream that was cut; `rest` is left to the caller. `epochs`: how many gateways the turn has had. */
export function readOpenFrames(bytes, { after = 0, epochs = 1 } = {}) {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  const frames = [];
  let newest = 1;
  for (let at = 0; at < text.length;) {
    if (text.startsWith(KEEP_ALIVE, at)) {
      at += KEEP_ALIVE.length;
      continue;
    }
    FRAME.lastIndex = at;
    const match = FRAME.exec(text);
    assert.ok(match, `no frame at ${at}: ${JSON.stringify(text.slice(at, at + 200))}`);
    at = FRAME.lastIndex;
    const [raw, retry, id, epoch, sequence, event, data] = match;
    assert.ok(epoch >= newest && epoch <= epochs, `epoch of frame ${id}`);
    newest = Number(epoch);
    assert.equal(Number(sequence), after + frames.length + 1, 'the sequence has no gaps');
    assert.equal(Boolean(retry), sequence === '1', `retry in frame ${id}`);
    assert.ok(EVENT_TYPES.includes(event), `${event} is an event of the contract`);
    assert.equal(JSON.parse(data).type, event, `frame ${id} repeats its type`);
    assert.ok(Buffer.byteLength(raw) <= FRAME_BYTES_MAX, `frame ${id} is short enough`);
    frames.push({ id, event, data });
  }
  const ended = frames.findIndex(({ event }) => LAST_TYPES.includes(event));
  assert.ok(ended === -1 || ended === frames.length - 1, 'nothing follows the last event');
  return frames;
}

/** What the model said in these frames. */
export function textOf(frames) {
  const said = frames.filter(({ event }) => event === 'text_delta');
  return said.map(({ data }) => JSON.parse(data).data.text).join('');
}
