// Clients in Python: each has a program beside this file that plays jobs (`jobs.py`).

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A program that plays jobs one after another, started with the first. It ends with the process. */
class Player {
  #program;
  #child;
  #lines;
  #last = Promise.resolve();

  constructor(program) {
    this.#program = fileURLToPath(new URL(program, import.meta.url));
  }

  play(job) {
    const played = this.#last.then(() => this.#playNow(job));
    this.#last = played.catch(() => {});
    return played;
  }

  async #playNow(job) {
    if (!this.#child) {
      this.#child = spawn('python3', [this.#program], { stdio: ['pipe', 'pipe', 'inherit'] });
      this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    }
    this.#child.stdin.write(`${JSON.stringify(job)}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`${this.#program} has ended`);
    return JSON.parse(value);
  }

  end() {
    this.#child?.stdin.end();
  }
}

const players = new Map();

/** Ends all programs. */
export function endPython() {
  for (const player of players.values()) player.end();
}

/** A client whose program is `program`, with its ways. */
function client(program, { api, ways, ...more }) {
  if (!players.has(program)) players.set(program, new Player(program));
  const run = (way) => (job) => players.get(program).play({ ...job, api, way });
  const played = Object.entries(ways).map(([name, way]) => [name, { ...way, run: run(name) }]);
  return { api, ways: Object.fromEntries(played), ...more };
}

// A blocking call cannot be left.
const whole = { omits: ['leaving early'] };
const streamed = { streams: true };
/** A way to which an answer that was cut off is this error. */
const insistent = (way, error) => ({ ...way, raises: { 'the token limit': error } });

const chat = { api: 'Chat Completions', shows: { reasoning: true, ours: false, end: true } };
const responses = { api: 'Responses', shows: { reasoning: true, ours: true, end: true } };
const openai = { name: '`openai` for Python', error: /^(APIError|InternalServerError)$/ };
const agents = { ...openai, name: '`openai-agents`' };
const langchain = { name: '`langchain-openai`', error: /^(OpenAI)?APIError$/, ways: { invoke: whole, stream: streamed } };

export default [
  client('openai_chat.py', {
    ...openai,
    ...chat,
    ways: { create: whole, stream: streamed, 'stream helper': insistent(streamed, /^LengthFinishReasonError$/) },
  }),
  client('agents_sdk.py', {
    ...agents,
    ...chat,
    shows: { ...chat.shows, end: false },
    ways: { run: whole, run_streamed: streamed },
  }),
  client('langchain_openai_sdk.py', { ...langchain, ...chat, shows: { ...chat.shows, reasoning: false } }),
  client('openai_responses.py', {
    ...openai,
    ...responses,
    ways: { create: whole, stream: streamed, 'stream helper': insistent(streamed, /^RuntimeError$/) },
  }),
  client('agents_sdk.py', {
    ...agents,
    ...responses,
    shows: { ...responses.shows, end: false },
    ways: {
      run: insistent(whole, /^ModelBehaviorError$/),
      run_streamed: insistent(streamed, /^ModelBehaviorError$/),
    },
  }),
  client('langchain_openai_sdk.py', { ...langchain, ...responses }),
  client('anthropic_messages.py', {
    name: '`anthropic` for Python',
    api: 'Messages',
    sections: { messages: { server_tools: 'mcp_tool_use' } },
    shows: responses.shows,
    error: /^(APIStatusError|InternalServerError)$/,
    ways: { create: whole, 'stream helper': streamed, 'stream helper, beta': streamed },
  }),
];
