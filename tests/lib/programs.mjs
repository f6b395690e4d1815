// Programs of others that the tests start, and ports for them.

import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';

import { REPOSITORY } from './binary.mjs';

/** A program that `tests/run` has unpacked, or else the one that is installed. */
export function program(name, folder) {
  const unpacked = path.join(REPOSITORY, 'tests/.cache', folder, name);
  return existsSync(unpacked) ? unpacked : name;
}

/** Ports that nobody uses now. */
export async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}
