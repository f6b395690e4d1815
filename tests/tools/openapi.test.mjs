// Tools from OpenAPI documents: real documents, and a server that judges every request.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

import { REPOSITORY, callTool, configFile, listTools } from '../lib/binary.mjs';
import { sample } from '../lib/sample.mjs';

const MODULES = path.join(REPOSITORY, 'tests/node_modules');
const EXAMPLES = path.join(MODULES, '@readme/oas-examples');
const PRISM = path.join(MODULES, '@stainless-api/prism-cli/dist/index.js');
const METHODS = ['get', 'head', 'options', 'post', 'put', 'patch', 'delete', 'trace'];

/** The documents of OpenAPI 3.0 and 3.1, in JSON or YAML. */
async function documents(kind) {
  const found = [];
  for (const version of ['3.0', '3.1']) {
    const directory = path.join(EXAMPLES, version, kind);
    for (const name of (await readdir(directory)).sort()) {
      if (name.endsWith(`.${kind}`)) found.push(path.join(directory, name));
    }
  }
  return found;
}

/** An entry for a document, with a key for each of its security schemes. */
async function entry(file, more = {}) {
  const json = await readFile(file.replace('/yaml/', '/json/').replace(/yaml$/, 'json'), 'utf8');
  const schemes = Object.keys(JSON.parse(json).components?.securitySchemes ?? {});
  const auth = Object.fromEntries(schemes.map((name) => [name, 'user:key']));
  return { name: 'api', openapi: file, base_url: 'https://example.org', prefix: '', auth, ...more };
}

const config = (http) => ({ tools: { builtin: [], http: [http] } });

/** What a reference to the document itself refers to. */
function resolve(document, value) {
  if (!value.$ref) return value;
  const keys = value.$ref.slice(2).split('/').map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  return resolve(document, keys.reduce((object, key) => object[key], document));
}

/** All references in a schema. */
function references(value, found = []) {
  if (Array.isArray(value)) for (const item of value) references(item, found);
  else if (value && typeof value === 'object') {
    if (typeof value.$ref === 'string') found.push(value.$ref);
    for (const member of Object.values(value)) references(member, found);
  }
  return found;
}

test('every operation of every document is a tool, or the reason is given', async (t) => {
  let [offered, leftOut] = [0, 0];
  for (const file of await documents('json')) {
    const document = JSON.parse(await readFile(file, 'utf8'));
    const items = Object.values(document.paths ?? {}).map((item) => resolve(document, item));
    const operations = items.flatMap((item) => METHODS.filter((method) => item[method]));
    const { tools, said } = await listTools(await configFile(t, config(await entry(file))));
    const missing = said.filter((line) => line.includes(' is not offered: '));
    const name = path.relative(EXAMPLES, file);
    assert.equal(tools.length + missing.length, operations.length, `${name}: ${said.join('\n')}`);
    for (const tool of tools) {
      assert.match(tool.name, /^[A-Za-z0-9_-]{1,64}$/);
      assert.ok(tool.description, `${name}: ${tool.name}`);
      const defined = Object.keys(tool.parameters.$defs ?? {}).map((key) => `#/$defs/${key}`);
      for (const reference of references(tool.parameters)) {
        assert.ok(defined.includes(reference), `${name}: ${tool.name}: ${reference}`);
      }
    }
    offered += tools.length;
    leftOut += missing.length;
  }
  t.diagnostic(`${offered} operations are tools, ${leftOut} are not`);
  assert.ok(offered > 450 && leftOut < offered / 6, `${offered} are tools, ${leftOut} are not`);
});

test('a document in YAML gives the same tools as in JSON', async (t) => {
  for (const file of await documents('yaml')) {
    const json = file.replace('/yaml/', '/json/').replace(/yaml$/, 'json');
    const [ofYaml, ofJson] = await Promise.all([file, json].map(async (it) =>
      (await listTools(await configFile(t, config(await entry(it))))).tools));
    assert.deepEqual(ofYaml, ofJson, path.relative(EXAMPLES, file));
  }
});

/**
 * What the judge says against a request: in a header if the document has an answer for requests
 * that are not valid, and otherwise as an answer of its own.
 */
function violations(headers, body) {
  const said = JSON.parse(headers['sl-violations'] ?? '[]').filter(({ location }) => location[0] === 'request');
  if (!headers['content-type']?.startsWith('application/problem+json')) return said;
  const { type = '', detail, validation = [detail] } = JSON.parse(body);
  const isOfRequest = /errors#(UNPROCESSABLE_ENTITY|UNAUTHORIZED|NO_\w+_MATCHED)/.test(type);
  return isOfRequest ? [...said, ...validation] : said;
}

/** Starts the judge for a document, and in front of it a proxy that records its verdicts. */
async function judge(t, file) {
  const child = spawn(process.execPath, [PRISM, 'mock', '--port', '0', file]);
  t.after(() => child.kill());
  let port;
  for await (const line of createInterface({ input: child.stdout })) {
    port = line.match(/listening on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
    if (port) break;
  }
  child.stdout.resume();
  assert.ok(port, 'the judge did not start');
  const judged = [];
  const proxy = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const forwarded = request({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      text(answer).then((body) => {
        judged.push({ method, url, violations: violations(answer.headers, body) });
        outgoing.end(body);
      });
    });
    forwarded.on('error', ({ message }) => {
      judged.push({ method, url, violations: [`the judge died: ${message}`] });
      outgoing.destroy();
    });
    incoming.pipe(forwarded);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => { proxy.close(); proxy.closeAllConnections(); });
  return { origin: `http://127.0.0.1:${proxy.address().port}`, judged };
}

// Operations for which this test finds no value: schemas that contradict themselves, alternatives
// that a value fits more than one of, and a list of objects of objects in a query.
const IMPOSSIBLE = {
  '3.0/json/circular-paths.json': ['put_anything'],
  '3.0/json/discriminators.json': ['post_potentially-undefined-formData'],
  '3.0/json/polymorphism.json': ['post_one-of-complex'],
  '3.0/json/schema-types.json': ['quirks_entirelyIncompatibleAllOf', 'quirks_partiallyUsableIncompatibleAllOf'],
  '3.1/json/schema-validation-local.json': ['get_anything_strings'],
  '3.1/json/schema-types.json': ['quirks_entirelyIncompatibleAllOf', 'quirks_partiallyUsableIncompatibleAllOf'],
};
// Operations at which the judge itself dies: it splits lists and objects in paths twice, and has no
// delimited objects. The answers with a status below 200 never end.
const KILLS_THE_JUDGE = /^(paths_(standard|simple_(nonE|e)xploded)|query_(space|pipe)Delimited_nonExploded|get_status_1\d\d)$/;

/** Calls a tool with a full value, or with a sparse one if the full one is not valid. */
async function callWithSample(setup, tool) {
  for (const isSparse of [false, true]) {
    const args = sample(tool.parameters, isSparse);
    const result = await callTool(setup, tool.name, args).catch((error) => error);
    if (!(result instanceof Error)) return { args, result };
  }
  return undefined;
}

for (const file of await documents('json')) {
  const name = path.relative(EXAMPLES, file);
  test(`the judge accepts every request by ${name}`, async (t) => {
    const { tools } = await listTools(await configFile(t, config(await entry(file))));
    if (tools.length === 0) return t.skip('nothing is offered');
    const { origin, judged } = await judge(t, file);
    const http = await entry(file, { base_url: origin, allow_private: ['127.0.0.1'] });
    const setup = await configFile(t, config(http));
    const impossible = [];
    for (const tool of tools) {
      if (KILLS_THE_JUDGE.test(tool.name)) continue;
      const before = judged.length;
      const called = await callWithSample(setup, tool);
      if (judged.length === before) {
        impossible.push(tool.name);
        t.diagnostic(`${tool.name}: ${JSON.stringify(called)}`);
        continue;
      }
      const { url, violations } = judged.at(-1);
      assert.deepEqual(violations, [], `${tool.name} ${url} ${JSON.stringify(called)}`);
    }
    assert.deepEqual(impossible, IMPOSSIBLE[name] ?? []);
  });
}

// A list and an object that are only what they are if they are read in the right style.
const LIST = ['a', 'c&d'];
const OBJECT = { x: 'a', y: 'c&d' };
const OF_LIST = { type: 'array', items: { enum: LIST }, minItems: 2, maxItems: 2 };
const OF_OBJECT = {
  type: 'object', properties: { x: { enum: ['a'] }, y: { enum: ['c&d'] } }, required: ['x', 'y'], additionalProperties: false,
};
// Places, styles and values, and a request that has the same value in another style.
const STYLES = [
  ['query', 'form', true, LIST, '?v=a,c%26d'],
  ['query', 'form', true, OBJECT, '?v=x,a,y,c%26d'],
  ['query', 'form', false, LIST, '?v=a&v=c%26d'],
  ['query', 'form', false, OBJECT, '?x=a&y=c%26d'],
  // Between values, the judge expects the text `%20`, encoded once more.
  ['query', 'spaceDelimited', false, ['a'], '?v=b'],
  ['query', 'pipeDelimited', false, LIST, '?v=a,c%26d'],
  ['query', 'deepObject', true, OBJECT, '?x=a&y=c%26d'],
  ['header', 'simple', false, LIST, 'a|c&d'],
  ['header', 'simple', false, OBJECT, 'x=a,y=c&d'],
  ['header', 'simple', true, OBJECT, 'x,a,y,c&d'],
  // Of lists and objects in paths, the judge can read only lists of one.
  ['path', 'simple', false, ['a'], 'b'],
  // Of fields that are repeated in a form, it sees the last.
  ['form', 'form', true, ['a'], 'v=b'],
  ['form', 'form', true, OBJECT, 'v=x,a,y,c%26d'],
  ['form', 'form', false, OBJECT, 'x=a&y=c%26d'],
  ['form', 'form', false, LIST, 'v=a&v=c%26d'],
  ['form', 'spaceDelimited', false, ['a'], 'v=b'],
  ['form', 'pipeDelimited', false, LIST, 'v=a,c%26d'],
  ['form', 'deepObject', true, OBJECT, 'v=x,a,y,c%26d'],
];
const FORM = 'application/x-www-form-urlencoded';

/** A document with an operation for each of the styles, called `s0`, `s1` .. */
function documentOfStyles() {
  const paths = STYLES.map(([place, style, explode, value], at) => {
    const ofList = value.length === 1 ? { type: 'array', items: { enum: ['a'] } } : OF_LIST;
    const schema = Array.isArray(value) ? ofList : OF_OBJECT;
    const operation = { operationId: `s${at}`, responses: { 200: { description: 'fine' } } };
    if (place === 'form') {
      const body = { type: 'object', properties: { v: schema }, required: ['v'] };
      // Without this, the judge forbids even the commas that separate values.
      const encoding = { v: { style, explode, allowReserved: true } };
      operation.requestBody = { required: true, content: { [FORM]: { schema: body, encoding } } };
      return [`/s${at}`, { post: operation }];
    }
    operation.parameters = [{ name: 'v', in: place, required: true, style, explode, schema }];
    return [place === 'path' ? `/s${at}/{v}` : `/s${at}`, { get: operation }];
  });
  return { openapi: '3.0.3', info: { title: 'styles', version: '1' }, paths: Object.fromEntries(paths) };
}

test('the judge accepts every style, and no value in another style', async (t) => {
  const file = await configFile(t, {});
  await writeFile(file, JSON.stringify(documentOfStyles()));
  const { origin, judged } = await judge(t, file);
  const http = { name: 'styles', openapi: file, base_url: origin, prefix: '', allow_private: ['127.0.0.1'] };
  const setup = await configFile(t, config(http));
  for (const [at, [place, style, explode, value, wrong]] of STYLES.entries()) {
    const what = `${place} ${style} ${explode} ${JSON.stringify(value)}`;
    const before = judged.length;
    const result = await callTool(setup, `s${at}`, { v: value });
    assert.equal(judged.length, before + 1, `${what}: ${JSON.stringify(result)}`);
    assert.deepEqual(judged.at(-1).violations, [], `${what}: ${judged.at(-1).url}`);
    const url = `${origin}/s${at}${{ query: wrong, path: `/${wrong}` }[place] ?? ''}`;
    if (place === 'form') await fetch(url, { method: 'POST', body: wrong, headers: { 'content-type': FORM } });
    else await fetch(url, place === 'header' ? { headers: { v: wrong } } : {});
    assert.notDeepEqual(judged.at(-1).violations, [], `the judge would accept anything: ${what}`);
  }
});

test('a document with OAuth is used with tokens that the gateway gets', async (t) => {
  const seen = [];
  const server = createServer((incoming, outgoing) => {
    incoming.resume();
    seen.push([incoming.url, incoming.headers.authorization]);
    const isToken = incoming.url === '/token';
    const answer = isToken ? { access_token: 't0k', token_type: 'Bearer', expires_in: 60 } : { pets: 3 };
    outgoing.writeHead(200, { 'content-type': 'application/json' });
    outgoing.end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.close(); server.closeAllConnections(); });
  const origin = `http://127.0.0.1:${server.address().port}`;
  const document = {
    openapi: '3.1.0', info: { title: 'pets', version: '1' }, security: [{ shop: ['read'] }],
    components: { securitySchemes: { shop: { type: 'oauth2', flows: { clientCredentials: { tokenUrl: 'https://elsewhere.example.org', scopes: {} } } } } },
    paths: { '/pets': { get: { operationId: 'countPets' } } },
  };
  const local = { allow_private: ['127.0.0.1'] };
  const auth = { shop: { token_url: `${origin}/token`, client_id: 'me', client_secret: 'sesame', ...local } };
  const file = await configFile(t, config({ name: 'pets', openapi: 'pets.json', base_url: origin, auth, ...local }));
  await writeFile(path.join(path.dirname(file), 'pets.json'), JSON.stringify(document));
  assert.deepEqual((await callTool(file, 'pets__countPets')).data, { pets: 3 });
  assert.deepEqual(seen, [['/token', `Basic ${btoa('me:sesame')}`], ['/pets', 'Bearer t0k']]);
});
