// What each client is put through: what the model says, what the user asks for, and what has to come
// out of the client. `docs/clients.md` has a column for each.

import { call } from '../../lib/model.mjs';

const sum = (expression) => call('calculate', { expression });
const SUM = sum('6*7');
const openFile = (path) => call('open_file', { path });

const NEVER = new Promise(() => {});

/**
 * A scenario's `script` is a list of the model's messages, as `startModel` takes them; all of it has to
 * be played, and nothing beyond. `prompts` are the user's. What comes out:
 *
 *   said       the words of each answer
 *   reasoning  of the last answer, if the client shows any
 *   ours       the gateway's tools that were run, if the client shows them, and whether that went well
 *   opened     the files that the client was made to open by the tool of its own, which it then offers
 *   end        why the last answer ended, if the client says so
 *   told       what the model's last request has in it, and `toldOnce` what it has no more than once
 *
 * Three end otherwise. With `fails`, an error follows the words. With `leaves`, the client goes away
 * after the words, and so does the gateway. With `waits`, the model waits before its last message ends
 * until the client has got five keep-alives.
 */
export const SCENARIOS = {
  text: {
    script: ['It is 42.'],
    said: ['It is 42.'],
  },
  reasoning: {
    script: ['<think>Six sevens.</think>It is 42.'],
    said: ['It is 42.'],
    reasoning: 'Six sevens.',
  },
  'a server tool': {
    script: [`Let me see. ${SUM}`, 'It is 42.'],
    said: [/^Let me see\.\s+It is 42\.$/],
    ours: [['calculate', true]],
    told: [/"result":"42"/],
  },
  'several server tools': {
    script: [`${SUM} ${sum('1+1')}`, sum('20+3'), 'That is all.'],
    said: ['That is all.'],
    ours: [['calculate', true], ['calculate', true], ['calculate', true]],
    told: [/"result":"42"/, /"result":"2"/, /"result":"23"/],
  },
  'a failing server tool': {
    script: [sum('1/0'), 'I cannot.'],
    said: ['I cannot.'],
    ours: [['calculate', false]],
    told: [/division by zero/],
  },
  'client tools': {
    script: [`${openFile('a')} ${openFile('b')}`, 'Milk twice.'],
    said: ['Milk twice.'],
    opened: ['a', 'b'],
    told: [/milk in a/, /milk in b/],
  },
  'both kinds': {
    script: [`${SUM} ${openFile('a')}`, 'It says milk.'],
    said: ['It says milk.'],
    ours: [['calculate', true]],
    opened: ['a'],
    told: [/"result":"42"/, /milk in a/],
  },
  'a corrected call': {
    script: [openFile(7), openFile('a'), 'It says milk.'],
    said: ['It says milk.'],
    opened: ['a'],
    told: [/milk in a/],
  },
  'a second turn': {
    script: [SUM, 'It is 42.', 'Quite sure.'],
    prompts: ['What is 6*7?', 'Sure?'],
    said: ['It is 42.', 'Quite sure.'],
    told: [/"result":"42"/],
    toldOnce: 'It is 42.',
  },
  'a question': {
    sections: { tools: { demo: true } },
    script: [call('lookup_contacts', { name: 'John' }), 'Calling him.'],
    prompts: ['Call John.', '2'],
    // The question and its options, in words of ours or of the client.
    said: [/^Which John.*\n1\. John Doe.*\n2\. John Smith/s, 'Calling him.'],
    told: [/contact_john_smith/],
  },
  'the loop limit': {
    sections: { limits: { max_tool_loops: 1 } },
    script: [SUM, 'It is 42.'],
    said: ['It is 42.'],
    ours: [['calculate', true]],
  },
  'the token limit': {
    script: [{ say: 'One, two', finish: 'length' }],
    said: ['One, two'],
    end: 'length',
  },
  'a model that dies': {
    script: [SUM, { say: 'It is', dies: true }],
    said: ['It is'],
    fails: true,
  },
  'leaving early': {
    sections: { stream: { disconnect_grace_sec: 0 } },
    script: [{ say: 'Well', holds: NEVER }],
    said: ['Well'],
    leaves: true,
  },
  'keep-alives': {
    sections: { stream: { keep_alive_sec: 0.01 } },
    script: [SUM, { say: 'It is 42.' }],
    said: ['It is 42.'],
    ours: [['calculate', true]],
    waits: true,
  },
};
