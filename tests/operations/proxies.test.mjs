// `examples/proxies`: each proxy with its file, in front of real gateways. A proxy that is not there is
// skipped.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { REPOSITORY } from '../lib/binary.mjs';
import { KEEP_ALIVE, readFrames, readOpenFrames, textOf } from '../lib/frames.mjs';
import { CHAT_STREAM, startGateway } from '../lib/gateway.mjs';
import { startModel } from '../lib/model.mjs';
import { freePorts, program } from '../lib/programs.mjs';

const HOST = 'tether.example.org';
const KEEP_ALIVES = 3;
const ROOT = process.getuid() === 0;

const certificates = mkdtempSync(path.join(tmpdir(), 'tether-test-'));
after(() => rmSync(certificates, { recursive: true }));
const [CERTIFICATE, KEY, BOTH] = ['cert.pem', 'key.pem', 'both.pem'].map((name) => path.join(certificates, name));
execFileSync('openssl', [
  'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
  '-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST}`, '-keyout', KEY, '-out', CERTIFICATE,
], { stdio: 'ignore' });
execFileSync('sh', ['-c', 'cat "$0" "$1" > "$2"', CERTIFICATE, KEY, BOTH]);
const CA = readFileSync(CERTIFICATE);

/** For each proxy: its program, what differs in its file when a test uses it, and how it is started. */
const PROXIES = [
  {
    name: 'nginx',
    program: process.env.NGINX ?? program('nginx', 'nginx'),
    example: 'nginx.conf',
    here: (port) => [
      ['listen 443 ssl', `listen 127.0.0.1:${port} ssl`],
      ['/etc/ssl/tether/fullchain.pem', CERTIFICATE],
      ['/etc/ssl/tether/privkey.pem', KEY],
    ],
    around: (file) => `
      worker_processes 2; daemon off; pid nginx.pid; ${ROOT ? 'user root;' : ''}
      events { worker_connections 256; }
      http {
        access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
        uwsgi_temp_path uwsgi; scgi_temp_path scgi;
        include ${file};
      }`,
    command: (file, folder) => ['-p', `${folder}/`, '-e', 'stderr', '-c', file],
  },
  {
    name: 'Caddy',
    program: process.env.CADDY ?? program('caddy', 'caddy'),
    example: 'Caddyfile',
    here: (port) => [[`${HOST} {\n`, `https://${HOST}:${port} {\n\tbind 127.0.0.1\n\ttls ${CERTIFICATE} ${KEY}\n`]],
    around: (file) => `{\n\tadmin off\n\tauto_https off\n}\nimport ${file}\n`,
    command: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
    // It passes refusals on until a health check has failed, and then says this.
    notices: /"status_code":503/,
  },
  {
    name: 'HAProxy',
    program: process.env.HAPROXY ?? program('haproxy', 'haproxy'),
    example: 'haproxy.cfg',
    here: (port) => [
      ['bind :443 ', `bind 127.0.0.1:${port} `],
      ['/etc/haproxy/tether.pem', BOTH],
    ],
    command: (file) => ['-db', '-f', file],
    // Its file says why that matters.
    asksToRepeat: true,
  },
];

/** Starts a proxy in front of the gateways at these two ports. */
async function startProxy(t, proxy, gateways) {
  const folder = await mkdtemp(path.join(tmpdir(), 'tether-test-'));
  const [port] = await freePorts(1);
  let config = await readFile(path.join(REPOSITORY, 'examples/proxies', proxy.example), 'utf8');
  const addresses = gateways.map((gateway, at) => [`127.0.0.1:${8081 + at}`, `127.0.0.1:${gateway}`]);
  for (const [written, used] of [...addresses, ...proxy.here(port)]) {
    assert.ok(config.includes(written), `${proxy.example} has ${written}`);
    config = config.replaceAll(written, used);
  }
  let file = path.join(folder, 'example');
  await writeFile(file, config);
  if (proxy.around) {
    const outer = path.join(folder, 'outer');
    await writeFile(outer, proxy.around(file));
    file = outer;
  }
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
  // nginx itself takes this for a list of sockets.
  delete env.NGINX;
  const child = spawn(proxy.program, proxy.command(file, folder), { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = once(child, 'close');
  const client = new Client(t, port, child);
  t.after(async () => {
    child.kill('SIGTERM');
    const grace = setTimeout(() => child.kill('SIGKILL'), 2000);
    await closed;
    clearTimeout(grace);
    await rm(folder, { recursive: true });
  });
  while (!await client.get('/healthz').then(({ status }) => status === 200, () => false)) {
    assert.equal(child.exitCode, null, `${proxy.name} did not start:\n${client.log}`);
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
  return client;
}

/** A client that speaks HTTP/2, and HTTP/1.1 where it is told to. It also reads the proxy's log. */
class Client {
  log = '';
  #logged = () => {};
  #session;

  constructor(t, port, { stdout, stderr }) {
    this.port = port;
    for (const output of [stdout, stderr]) {
      output.setEncoding('utf8').on('data', (text) => { this.log += text; this.#logged(); });
    }
    t.after(() => this.#session?.destroy());
  }

  async proxySays(pattern) {
    while (!pattern.test(this.log)) await new Promise((resolve) => { this.#logged = resolve; });
  }

  async #connected() {
    if (!this.#session || this.#session.destroyed || this.#session.closed) {
      const session = http2.connect(`https://127.0.0.1:${this.port}`, { ca: CA, servername: HOST });
      session.on('error', () => {});
      this.#session = session;
      await once(session, 'connect');
      assert.equal(session.alpnProtocol, 'h2');
    }
    return this.#session;
  }

  /** Sends a request and returns its answer, whose body is still to come. */
  async ask(address, { body, headers = {} } = {}) {
    const session = await this.#connected();
    const method = body === undefined ? 'GET' : 'POST';
    const stream = session.request({ ':method': method, ':path': address, ':authority': HOST, ...headers });
    stream.end(body);
    return new Answer(stream, (await once(stream, 'response'))[0]);
  }

  /** The same over HTTP/1.1. */
  async askOldStyle(address, { body, headers = {}, from } = {}) {
    const request = https.request({
      localAddress: from, ca: CA, host: '127.0.0.1', port: this.port, servername: HOST, path: address, agent: false,
      method: body === undefined ? 'GET' : 'POST', headers: { host: HOST, ...headers },
    }).end(body);
    const [response] = await once(request, 'response');
    return new Answer(response, { ':status': response.statusCode, ...response.headers });
  }

  /** A whole answer. */
  async get(address, options) {
    const answer = await this.ask(address, options);
    await answer.until(() => false);
    return { status: answer.status, headers: answer.headers, body: answer.bytes };
  }

  begin(prompt, ask = this.ask) {
    return ask.call(this, CHAT_STREAM, { body: JSON.stringify({ prompt }) });
  }
}

class Answer {
  bytes = Buffer.alloc(0);
  #ended = false;
  #heard = () => {};

  constructor(stream, headers) {
    Object.assign(this, { stream, headers, status: headers[':status'] });
    stream.on('data', (piece) => { this.bytes = Buffer.concat([this.bytes, piece]); this.#heard(); });
    stream.on('error', () => {}).on('close', () => { this.#ended = true; this.#heard(); });
  }

  /** Waits until the body so far is enough, or has ended. */
  async until(isEnough) {
    while (!isEnough(this.bytes) && !this.#ended) await new Promise((resolve) => { this.#heard = resolve; });
    return this.bytes;
  }

  /** Whole frames so far. */
  frames(after = 0) {
    const end = this.bytes.lastIndexOf('\n\n');
    return readOpenFrames(this.bytes.subarray(0, end === -1 ? 0 : end + 2), { after });
  }

  async upTo(text) {
    await this.until(() => textOf(this.frames()).endsWith(text));
    assert.ok(textOf(this.frames()).endsWith(text), `ended early: ${this.bytes}`);
  }

  leave() {
    this.stream.destroy();
  }
}

/** A message that waits for `letGo` after its words. */
function held(say) {
  const message = { say };
  message.holds = new Promise((resolve) => { message.letGo = resolve; });
  message.isLeft = new Promise((resolve) => { message.left = resolve; });
  return message;
}

/** A gateway whose model follows a script. */
async function scripted(t, script, sections = {}) {
  const upstream = await startModel(t, script);
  const server = { cors_origins: [`https://${HOST}`], ...sections.server };
  return startGateway(t, { upstreams: [upstream], ...sections, server });
}

/** A proxy in front of a gateway with this script, and of one that is down. */
async function startBoth(t, proxy, script, sections) {
  const gateway = await scripted(t, script, sections);
  const [down] = await freePorts(1);
  return { gateway, client: await startProxy(t, proxy, [down, gateway.port]) };
}

const isThere = (proxy) => spawnSync(proxy.program, ['-v'], { stdio: 'ignore' }).error === undefined;

for (const proxy of PROXIES) {
  describe(proxy.name, { skip: !isThere(proxy) && `${proxy.name} is not there` }, () => {
    test('each event arrives at once, and so does each keep-alive', async (t) => {
      const message = held('One');
      const { client } = await startBoth(t, proxy, [message], { stream: { keep_alive_sec: 0.05 } });
      const answer = await client.begin('Count.');
      assert.equal(answer.status, 200);
      assert.match(answer.headers['content-type'], /^text\/event-stream/);
      // The model has not finished: it waits for this reader.
      await answer.upTo('One');
      await answer.until((bytes) => bytes.toString().split(KEEP_ALIVE).length > KEEP_ALIVES);
      message.letGo();
      const frames = readFrames(await answer.until(() => false));
      assert.equal(frames.at(-1).event, 'turn_completed');
    });

    test('so does each line of JSON', async (t) => {
      const message = held('One');
      const { client } = await startBoth(t, proxy, [message]);
      const body = JSON.stringify({ prompt: 'Count.' });
      const answer = await client.ask(CHAT_STREAM, { body, headers: { accept: 'application/x-ndjson' } });
      assert.match(answer.headers['content-type'], /^application\/x-ndjson/);
      assert.match(String(await answer.until((bytes) => bytes.includes('"One"'))), /"One"/);
      message.letGo();
      assert.match(String(await answer.until(() => false)), /"turn_completed".*\n$/);
    });

    test('a client re-joins by Last-Event-ID and misses nothing', async (t) => {
      const message = held('One');
      // nginx keeps the head of an answer over HTTP/2 until something follows it, if only a keep-alive.
      const { client } = await startBoth(t, proxy, [message], { stream: { keep_alive_sec: 0.05 } });
      const first = await client.begin('Count.');
      await first.upTo('One');
      const seen = first.frames();
      first.leave();
      const location = first.headers.location;
      const second = await client.ask(location, { headers: { 'last-event-id': seen.at(-1).id } });
      message.letGo();
      const rest = readFrames(await second.until(() => false), { after: seen.length });
      const whole = readFrames((await client.get(location)).body);
      assert.deepEqual([...seen, ...rest], whole);
    });

    test('a client that leaves is noticed, over HTTP/1.1 too', async (t) => {
      const messages = [held('One'), held('Two')];
      const { client } = await startBoth(t, proxy, messages, { stream: { disconnect_grace_sec: 0 } });
      for (const [message, ask] of [[messages[0], client.ask], [messages[1], client.askOldStyle]]) {
        const answer = await client.begin('Count.', ask);
        await answer.upTo(message.say);
        answer.leave();
        // The gateway has left the model, although no keep-alive was due.
        await message.isLeft;
      }
    });

    test('connections to the gateway stay open, and its metrics are private', async (t) => {
      const { gateway, client } = await startBoth(t, proxy, []);
      const { headers } = await client.get('/healthz');
      assert.match(headers['x-request-id'], /^[0-9a-f-]{32,36}$/);
      assert.equal((await client.get('/metrics')).status, 404);
      const metrics = await (await fetch(`${gateway.origin}/metrics`)).text();
      // One is for this request.
      assert.ok(Number(metrics.match(/^tether_connections_open (\d+)/m)[1]) >= 2, metrics);
    });

    test('each client has limits of its own, whatever it claims to be', async (t) => {
      const message = held('One');
      const limits = { turns_per_address: 1, exempt_addresses: [] };
      const server = { trusted_proxies: ['127.0.0.1'], limits };
      const { client } = await startBoth(t, proxy, [message, 'Two'], { server });
      const begin = (from, claim) => {
        const headers = { 'x-forwarded-for': claim, forwarded: `for=${claim}` };
        return client.askOldStyle(CHAT_STREAM, { body: JSON.stringify({ prompt: 'Count.' }), headers, from });
      };
      const first = await begin('127.0.0.2', '198.51.100.1');
      await first.upTo('One');
      assert.equal((await begin('127.0.0.2', '198.51.100.2')).status, 429);
      assert.equal((await begin('127.0.0.3', '127.0.0.2')).status, 200);
      message.letGo();
    });

    test('a POST that a gateway has read is not sent again', async (t) => {
      // Two that answer every GET, and die of every POST.
      let posts = 0;
      const frail = createServer((request, response) => {
        if (request.method === 'GET') {
          response.end('{}');
        } else {
          posts += 1;
          request.resume().on('end', () => request.socket.destroy());
        }
      }).listen(0, '127.0.0.1');
      await once(frail, 'listening');
      t.after(() => { frail.close(); frail.closeAllConnections(); });
      const { port } = frail.address();
      const client = await startProxy(t, proxy, [port, port]);
      const answer = client.get(CHAT_STREAM, { body: JSON.stringify({ prompt: 'Count.' }) });
      if (proxy.asksToRepeat) await assert.rejects(answer, /REFUSED_STREAM/);
      else assert.equal((await answer).status, 502);
      assert.equal(posts, 1);
    });

    test('while a gateway drains, new turns go to the other one', async (t) => {
      const message = held('One');
      const slow = { drain_timeout_sec: 30 };
      const draining = await scripted(t, [message], { server: slow });
      const other = await scripted(t, Array(40).fill('Fine.'));
      const client = await startProxy(t, proxy, [draining.port, other.port]);
      // Directly, so that it runs there.
      const body = JSON.stringify({ prompt: 'Count.' });
      const running = await fetch(draining.origin + CHAT_STREAM, { method: 'POST', body });
      const stopped = draining.stop();
      while ((await fetch(`${draining.origin}/readyz`, { headers: { connection: 'close' } })).status !== 503);
      // The others repeat what was refused elsewhere, at once.
      if (proxy.notices) await client.proxySays(proxy.notices);
      for (let turn = 0; turn < 4; turn += 1) {
        const { status, body: answered } = await client.get(CHAT_STREAM, { body });
        assert.equal(status, 200, String(answered));
        assert.equal(textOf(readFrames(answered)), 'Fine.');
      }
      message.letGo();
      assert.match(await running.text(), /turn_completed/);
      await stopped;
    });
  });
}
