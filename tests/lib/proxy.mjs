// A TCP proxy that breaks connections in mid-stream, and remembers what it carried.

import { once } from 'node:events';
import { createServer, connect } from 'node:net';

/**
 * Proxies to `port` as long as the test `t` runs. `cuts` gives each connection, in order, the
 * number of bytes towards the client after which it is destroyed; connections beyond the list
 * live.
 */
export async function startProxy(t, port, cuts = []) {
  const proxy = new Proxy(port, cuts);
  await proxy.listen();
  t.after(() => proxy.close());
  return proxy;
}

class Proxy {
  /** How many connections were broken. */
  cut = 0;
  /** What each connection has carried towards the client, in order. */
  carried = [];
  #open = new Set();
  #server;

  constructor(port, cuts) {
    this.#server = createServer((client) => this.#carry(client, connect(port, '127.0.0.1'), cuts));
  }

  async listen() {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.origin = `http://127.0.0.1:${this.#server.address().port}`;
  }

  close() {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
  }

  #carry(client, gateway, cuts) {
    const chunks = [];
    let left = cuts[this.carried.push(chunks) - 1] ?? Infinity;
    for (const [socket, peer] of [[client, gateway], [gateway, client]]) {
      this.#open.add(socket);
      // Either side may be gone at any time; the other one then goes as well.
      socket.on('error', () => peer.destroy());
      socket.on('close', () => { this.#open.delete(socket); peer.destroy(); });
    }
    client.pipe(gateway);
    gateway.on('end', () => client.end());
    gateway.on('data', (chunk) => {
      const part = chunk.subarray(0, left);
      left -= part.length;
      chunks.push(part);
      if (left > 0) {
        client.write(part);
        return;
      }
      this.cut += 1;
      // What was let through arrives; then the connection is gone.
      client.end(part);
      gateway.destroy();
    });
  }
}
