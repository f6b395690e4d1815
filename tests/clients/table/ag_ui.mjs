// AG-UI's own client, with its verifier. `ag-ui-validate` sees every stream as well.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

import { HttpAgent, buildResumeArray } from '@ag-ui/client';

import { OPEN_FILE } from './play.mjs';

/**
 * What `ag-ui-validate` finds wrong with a stream: errors and warnings. It sees one run. One that
 * resumes another has the result of a call that began there, as the protocol wants it.
 */
async function findings(stream, { resumes }) {
  const off = resumes ? ['--off', 'AGUI207'] : [];
  const child = spawn('python3', ['-m', 'ag_ui_validate.cli', '-', '--json', ...off]);
  child.stdin.end(stream);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  assert.ok(stdout.startsWith('{'), `ag-ui-validate: ${stderr}`);
  return JSON.parse(stdout).diagnostics.filter(({ severity }) => severity !== 'info');
}

/** An agent at a gateway. `run` runs a turn and checks its stream; `say` does so after the user's words. */
export function connect(origin) {
  let stream;
  const agent = new HttpAgent({
    url: `${origin}/api/v1/ag-ui`,
    threadId: 'thread',
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      const [kept, read] = response.body.tee();
      stream = text(kept);
      return new Response(read, response);
    },
  });
  const run = async (parameters = {}, onEvent = () => {}) => {
    const events = [];
    const { result } = await agent.runAgent({ tools: [], ...parameters }, {
      onEvent: ({ event }) => { events.push(event); onEvent(event); },
    });
    assert.deepEqual(await findings(await stream, { resumes: Boolean(parameters.resume) }), []);
    return { events, result, end: events.at(-1) };
  };
  const say = (content, ...more) => {
    agent.addMessage({ id: crypto.randomUUID(), role: 'user', content });
    return run(...more);
  };
  return { agent, run, say };
}

const { schema: parameters, ...described } = OPEN_FILE;

function start({ origin, offers }) {
  const { agent, run, say } = connect(origin);
  const tools = offers ? [{ ...described, parameters }] : [];
  let pending = [];
  let interrupts = [];
  agent.subscribe({ onRunFinishedEvent: ({ pendingToolCallIds }) => { pending = pendingToolCallIds ?? []; } });

  return async (prompt, heard, signal) => {
    signal.addEventListener('abort', () => agent.abortRun());
    const names = new Map();
    const onEvent = (event) => {
      if (event.type === 'TEXT_MESSAGE_CONTENT') heard.text += event.delta;
      if (event.type === 'REASONING_MESSAGE_CONTENT') heard.reasoning += event.delta;
      if (event.type === 'TOOL_CALL_START') names.set(event.toolCallId, event.toolCallName);
      // There is no other sign of an error than that it is a sentence.
      if (event.type === 'TOOL_CALL_RESULT') heard.ours.push([names.get(event.toolCallId), event.content.startsWith('{')]);
    };
    const chosen = interrupts.map(({ id, metadata }) => [id, { status: 'resolved', payload: metadata.options[prompt - 1].id }]);
    let ended = chosen.length > 0
      ? await run({ tools, resume: buildResumeArray(interrupts, Object.fromEntries(chosen)) }, onEvent)
      : await say(prompt, { tools }, onEvent);
    while (pending.length > 0) {
      for (const id of pending) {
        const calls = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
        const { path } = JSON.parse(calls.find((call) => call.id === id).function.arguments);
        agent.addMessage({ id: crypto.randomUUID(), role: 'tool', toolCallId: id, content: heard.open(path) });
      }
      ended = await run({ tools }, onEvent);
    }
    if (ended.end.type === 'RUN_ERROR') throw new RunError(ended.end.message);
    interrupts = ended.end.outcome.interrupts ?? [];
    for (const { message, metadata } of interrupts) {
      heard.text += [message, ...metadata.options.map(({ title }, at) => `${at + 1}. ${title}`)].join('\n');
    }
    heard.end = ended.result?.finish_reason ?? null;
  };
}

class RunError extends Error {}

export default [{
  name: '`@ag-ui/client`',
  api: 'AG-UI',
  shows: { reasoning: true, ours: true, end: true },
  error: /^RunError$/,
  ends: { 'the loop limit': 'loop_limit' },
  ways: { runAgent: { start, streams: true } },
}];
