// npm `eventsource-parser`, below most clients in JavaScript: our bytes, cut anywhere.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createParser as createParser4 } from 'eventsource-parser';
import { createParser as createParser3 } from 'eventsource-parser-3';

import { KEEP_ALIVE, readFrames } from '../lib/frames.mjs';
import { AT_ONCE, startGateway } from '../lib/gateway.mjs';
import { SEED, cutAtRandom, random } from '../lib/random.mjs';

const PROMPTS = [
  'What time is it in Tokyo, and what is 12*7?',
  'Try a wrong tool for the time in Paris.',
  'Think aloud: what is 2 ^ 64?',
  'What time is it in Zoë☃🦀?',
  'Give me a long answer.',
];
const RANDOM_CUTS = 200;

/** What the parser makes of bytes that arrive in these pieces. */
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

const oneByOne = (bytes) => Array.from(bytes, (byte) => Uint8Array.of(byte));

test('eventsource-parser reads what we mean, wherever the bytes are cut', async (t) => {
  const stream = { emit_arguments_delta: true };
  const gateway = await startGateway(t, { tokensPerSec: AT_ONCE, stream });
  const captures = await Promise.all(PROMPTS.map((prompt) => gateway.bytesOf(prompt)));
  // Comments wherever the contract allows them: between any two frames.
  captures.push(Buffer.from(captures[0].toString().replaceAll('\n\n', `\n\n${KEEP_ALIVE}`)));
  assert.ok(captures.some((bytes) => bytes.includes(Buffer.from('☃'))), 'beyond ASCII');

  for (const [version, createParser] of [[3, createParser3], [4, createParser4]]) {
    await t.test(`version ${version}, a byte at a time`, () => {
      for (const bytes of captures) {
        assert.deepEqual(parse(createParser, oneByOne(bytes)), readFrames(bytes));
      }
    });

    await t.test(`version ${version}, at random cuts`, () => {
      t.diagnostic(`TEST_SEED=${SEED}`);
      const next = random();
      for (const bytes of captures) {
        const frames = readFrames(bytes);
        for (let round = 0; round < RANDOM_CUTS; round += 1) {
          assert.deepEqual(parse(createParser, cutAtRandom(bytes, next)), frames);
        }
      }
    });
  }
});
