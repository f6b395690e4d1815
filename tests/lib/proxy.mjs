// A TCP proxy that breaks event streams in the middle, and remembers what it carried.

import { once } from 'node:events';
import { createServer, connect } from 'node:net';

/**
 * Proxies to `port` as long as the test `t` runs. `cuts` gives each event stream, in order,
 * the number of bytes, its head included, after which its connection is destroyed; streams
 * beyond the list live.
 */
export async function startProxy(t, port, cuts = []) {
  const proxy = new Proxy(port, cuts);
  await proxy.listen();
  t.after(() => proxy.close());
  return proxy;
}

class Proxy {
  /** How many streams were broken. */
  cut = 0;
  /** What each connection has carried towards the client, in order. */
  carried = [];
  /** All that clients have sent. */
  asked = '';
  /** Called with each piece that a client gets. */
  onPart = () => {};
  #cuts;
  #open = new Set();
  #mutes = new Set();
  #server;

  constructor(port, cuts) {
    this.#cuts = [...cuts];
    this.#server = createServer((client) => this.#carry(client, connect(port, '127.0.0.1')));
  }

  async listen() {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.origin = `http://127.0.0.1:${this.#server.address().port}`;
  }

  /** Breaks all connections that are open. */
  breakAll() {
    for (const socket of this.#open) socket.destroy();
  }

  /** Lets nothing more through to the clients of the connections that are open, and says nothing. */
  muteAll() {
    for (const mute of this.#mutes) mute();
  }

  close() {
    this.#server.close();
    this.breakAll();
  }

  #carry(client, gateway) {
    for (const [socket, peer] of [[client, gateway], [gateway, client]]) {
      this.#open.add(socket);
      socket.setNoDelay();
      // Either side may be gone at any time; the other one then goes as well.
      socket.on('error', () => peer.destroy());
      socket.on('close', () => {
        this.#open.delete(socket);
        peer.destroy();
      });
    }
    client.on('data', (chunk) => {
      this.asked += chunk.toString('latin1');
      gateway.write(chunk);
    });
    client.on('end', () => gateway.end());

    const carried = [];
    this.carried.push(carried);
    let left = Infinity;
    let isMute = false;
    this.#mutes.add(() => { isMute = true; });
    gateway.on('data', (chunk) => {
      if (isMute) return;
      if (left === Infinity && chunk.includes('text/event-stream')) {
        left = this.#cuts.shift() ?? Infinity;
      }
      const part = chunk.subarray(0, left);
      left -= part.length;
      carried.push(part);
      this.onPart(part);
      if (left > 0) {
        client.write(part);
        return;
      }
      this.cut += 1;
      // What was let through arrives; then the connection is gone.
      client.end(part, () => client.destroy());
      gateway.destroy();
    });
    gateway.on('end', () => client.end());
  }
}
