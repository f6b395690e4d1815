// A front end in the terminal, over AG-UI. It shows the server tools as they are called, and the user
// answers their questions by number or in words. With `tools.demo: true`, try "Call John."
//
//   npm install @ag-ui/client
//   node examples/front_end.mjs

import { createInterface } from 'node:readline';

import { HttpAgent, buildResumeArray } from '@ag-ui/client';

const agent = new HttpAgent({
  url: `${process.env.TETHER_URL ?? 'http://127.0.0.1:8080'}/api/v1/ag-ui`,
  headers: { Authorization: `Bearer ${process.env.TETHER_API_KEY ?? 'none'}` },
});
const show = (words) => process.stdout.write(words);

// The question that waits for an answer, if there is one.
let question;
const subscriber = {
  onTextMessageContentEvent: ({ event }) => show(event.delta),
  onToolCallEndEvent: ({ toolCallName, toolCallArgs }) => show(`[${toolCallName} ${JSON.stringify(toolCallArgs)}]\n`),
  onRunErrorEvent: ({ event }) => show(event.message),
  onRunFinishedEvent: ({ event }) => {
    question = event.outcome?.interrupts?.[0];
    if (!question) return;
    const options = question.metadata?.options ?? [];
    show([question.message, ...options.map(({ title }, at) => `${at + 1}. ${title}`)].join('\n'));
  },
};

show('> ');
for await (const line of createInterface({ input: process.stdin })) {
  if (question) {
    const option = question.metadata?.options?.[line - 1];
    const answer = { status: 'resolved', payload: option?.id ?? { text: line } };
    await agent.runAgent({ resume: buildResumeArray([question], { [question.id]: answer }) }, subscriber);
  } else {
    agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: line });
    await agent.runAgent({}, subscriber);
  }
  show('\n> ');
}
