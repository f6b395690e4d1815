// A model that follows a script: each request gets its next message.

import { once } from 'node:events';
import { createServer } from 'node:http';

const frame = (choice) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;

/** A call as a model writes it. */
export const call = (name, args) => `<<function_call>>${JSON.stringify({ name, arguments: args })}`;

/**
 * Starts a model server for the test `t` and returns the upstream of a configuration. `requests`,
 * if given, receives the body of each request. A message is a text, or an object: besides the text
 * (`say`), its `finish` reason, whether the server `dies` after the text, a promise that it waits for
 * before (`holds`), and what to call once the text is `written` and when the gateway has `left` early.
 * A function instead of the list gets the body of a request, and returns its message.
 */
export async function startModel(t, messages, requests = []) {
  const script = typeof messages === 'function' ? null : [...messages];
  const server = createServer((incoming, outgoing) => {
    let body = '';
    incoming.setEncoding('utf8').on('data', (text) => { body += text; }).on('end', () => {
      const request = body && JSON.parse(body);
      if (body) requests.push(request);
      if (incoming.method === 'GET') {
        outgoing.end(JSON.stringify({ data: [{ id: 'script' }] }));
        return;
      }
      const next = script ? script.shift() ?? 'I have nothing more to say.' : messages(request);
      const { say, finish = 'stop', dies = false, holds, written, left } = typeof next === 'string' ? { say: next } : next;
      if (left) outgoing.on('close', () => { if (!outgoing.writableEnded) left(); });
      outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
      outgoing.write(frame({ delta: { content: say } }), async () => {
        written?.();
        await holds;
        if (dies) outgoing.destroy();
        else outgoing.end(`${frame({ delta: {}, finish_reason: finish })}data: [DONE]\n\n`);
      });
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.close(); server.closeAllConnections(); });
  return { name: 'script', base_url: `http://127.0.0.1:${server.address().port}/v1`, model: 'script' };
}
