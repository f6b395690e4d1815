// Origins that are not the gateway's: each a server on a port of its own, with an empty page.

import { once } from 'node:events';
import { createServer } from 'node:http';

export async function startPages(t) {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><link rel="icon" href="data:,"><title>A page</title>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${server.address().port}` };
}
