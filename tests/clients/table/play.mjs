// Plays a scenario with a client.

import assert from 'node:assert/strict';

import { startGateway } from '../../lib/gateway.mjs';
import { startModel } from '../../lib/model.mjs';
import { startProxy } from '../../lib/proxy.mjs';
import { SCENARIOS } from './scenarios.mjs';

const KEEP_ALIVES_MIN = 5;
const KEEP_ALIVE = /^:|^event: ping$|"delta":\{\},"logprobs":null,"finish_reason":null/gm;

/** The tool that a client brings, in the words that all APIs share. */
export const OPEN_FILE = {
  name: 'open_file',
  description: 'Opens a file.',
  schema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
};

/** What a client hears in one turn; clients in JavaScript write it as it comes. */
export class Heard {
  reasoning = '';
  /** Calls of the gateway's tools: `[name, whether it went well]`. */
  ours = [];
  opened = [];
  /** `stop` or `length`; `null` if the client does not say. */
  end = null;
  #text = '';
  #onText;

  constructor(onText) {
    this.#onText = onText;
  }

  get text() {
    return this.#text;
  }

  set text(words) {
    this.#text = words;
    this.#onText(words);
  }

  /** The tool that the client brings. */
  open(path) {
    this.opened.push(path);
    return `Buy the milk in ${path}.`;
  }
}

/** Whether a client's way can play a scenario: an answer in one piece has no keep-alives. */
export const suits = (way, scenario) => !way.omits?.includes(scenario) && (way.streams || !SCENARIOS[scenario].waits);

/**
 * Plays a scenario with one way of a client and checks what comes out. A client is
 *
 *   sections  what its gateway's configuration needs
 *   shows     which of `reasoning`, `ours` and `end` it lets its user see
 *   error     the names of its errors for a model that dies
 *   ends      what it calls the end of a scenario, if neither `stop` nor what the scenario says
 *   ways      how it can be used, by name. `streams` is set if the answer comes as it is written; `raises`
 *             has the names of errors that the client itself makes of a scenario's end; `omits` lists
 *             scenarios that cannot be played
 *
 * A way's `start({ origin, offers })` begins a conversation and returns a function that says the user's
 * next words: `ask(prompt, heard, signal)`. `offers` tells whether the client brings its tool. A way that
 * has `run(job)` instead plays all of it elsewhere. `changes` are made to the scenario.
 */
export async function play(t, client, wayName, scenarioName, changes = {}) {
  const way = client.ways[wayName];
  const scenario = { ...SCENARIOS[scenarioName], ...changes };
  const { prompts = ['Go.'], said, leaves, waits } = scenario;
  const fails = way.raises?.[scenarioName] ?? (scenario.fails && client.error);
  const leaving = new AbortController();
  const requests = [];
  // A client that sees no words yet leaves when the model has written some.
  const [script, gone, goOn] = stage(scenario, () => { if (!way.streams) leaving.abort(); });
  const upstream = await startModel(t, script, requests);
  const gateway = await startGateway(t, merged({ upstreams: [upstream] }, client.sections, scenario.sections));
  const origin = waits ? await countKeepAlives(t, gateway, goOn) : gateway.origin;

  const job = { origin, prompts, offers: Boolean(scenario.opened), leavesAfter: leaves ? said[0] : null };
  const { heard, error } = await converse(way, job, leaving);
  if (leaves) {
    await gone;
    assert.ok(error, 'it was stopped');
  } else if (fails) {
    assert.ok(error, `no error: ${JSON.stringify(heard)}`);
    assert.match(error.name, fails, error.message);
    assert.doesNotMatch(error.message, /127\.0\.0\.1/, 'the server is no business of the user');
  } else if (error) {
    assert.fail(`${error.name}: ${error.message}`);
  }
  if (way.streams || !(fails || leaves)) {
    assert.equal(heard.length, said.length);
    said.forEach((words, at) => checkWords(heard[at].text.trim(), words));
  }
  if (fails || leaves) return;

  const last = heard.at(-1);
  const { shows } = client;
  assert.deepEqual(heard.flatMap(({ opened }) => opened), scenario.opened ?? [], 'its own tools');
  if (shows.reasoning) checkWords(last.reasoning, scenario.reasoning ?? '');
  if (shows.ours && scenario.ours) assert.deepEqual(last.ours, scenario.ours);
  if (!shows.ours) assert.deepEqual(last.ours, []);
  if (shows.end) assert.equal(last.end, client.ends?.[scenarioName] ?? scenario.end ?? 'stop');
  assert.equal(requests.length, script.length, 'the whole script, and no more');
  const told = requests.at(-1).messages.map(({ content }) => content).join('\n');
  for (const words of scenario.told ?? []) assert.match(told, words);
  if (scenario.toldOnce) assert.equal(told.split(scenario.toldOnce).length, 2, 'told once');
}

/** The scenario's script, a promise of the gateway's leaving, and what lets a waiting model go on. */
function stage({ script, leaves, waits }, written) {
  const gone = withResolvers();
  const held = withResolvers();
  const played = [...script];
  if (leaves) played.push({ ...played.pop(), written, left: gone.resolve });
  if (waits) played.push({ ...played.pop(), holds: held.promise });
  return [played, gone.promise, held.resolve];
}

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve) => { made.resolve = resolve; });
  return made;
}

/** Sections of a configuration, key by key. */
const merged = (...sections) => sections.filter(Boolean).reduce((all, each) => {
  const more = Object.entries(each).map(([name, keys]) => [name, Array.isArray(keys) ? keys : { ...all[name], ...keys }]);
  return { ...all, ...Object.fromEntries(more) };
}, {});

/** An address of the gateway that calls `enough` once a client has got its keep-alives. */
async function countKeepAlives(t, gateway, enough) {
  const proxy = await startProxy(t, gateway.port);
  let carried = '';
  proxy.onPart = (part) => {
    carried += part.toString('latin1');
    if ((carried.match(KEEP_ALIVE) ?? []).length >= KEEP_ALIVES_MIN) enough();
  };
  return proxy.origin;
}

/** Says all prompts; returns what was heard after each, and the error that ended it, if one did. */
async function converse(way, job, leaving) {
  if (way.run) return way.run(job);
  const heard = [];
  try {
    const ask = way.start(job);
    for (const prompt of job.prompts) {
      heard.push(new Heard((text) => { if (text === job.leavesAfter) leaving.abort(); }));
      await ask(prompt, heard.at(-1), leaving.signal);
    }
    leaving.signal.throwIfAborted();
  } catch (error) {
    return { heard, error: { name: error.constructor.name, message: error.message } };
  }
  return { heard };
}

function checkWords(words, expected) {
  if (expected instanceof RegExp) assert.match(words, expected);
  else assert.equal(words, expected);
}
