// MCP's reference servers, each the script that node runs.

import path from 'node:path';

import { REPOSITORY } from './binary.mjs';

const SERVERS = path.join(REPOSITORY, 'tests/node_modules/@modelcontextprotocol');
export const EVERYTHING = path.join(SERVERS, 'server-everything/dist/index.js');
export const FILESYSTEM = path.join(SERVERS, 'server-filesystem/dist/index.js');
/** A server of ours that misbehaves as its first argument says. */
export const MISBEHAVING = path.join(REPOSITORY, 'tests/mcp/server.py');
