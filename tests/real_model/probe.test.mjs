// What `tether check --probe` says of model servers: of a real llama.cpp, and which call format it
// recognises in the chat templates that llama.cpp is tested with.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, writeFile, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { startLlama } from './llama.mjs';

// By file name. `marker_json`: those without a format, those whose format is not read, and those that lose all
// of it (Granite 2, SmolLM3 and others are recognised by their names).
const TEMPLATES = {
  apertus: ['Apertus-8B-Instruct'],
  cohere: ['Cohere2MoE', 'CohereForAI-c4ai-command-r7b-12-2024-tool_use'],
  cohere_r_plus: ['CohereForAI-c4ai-command-r-plus-tool_use'],
  deepseek_v3: [
    'deepseek-ai-DeepSeek-R1-Distill-Llama-8B', 'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B', 'llama-cpp-deepseek-r1',
  ],
  deepseek_v31: ['deepseek-ai-DeepSeek-V3.1'],
  dsml_v32: ['deepseek-ai-DeepSeek-V3.2'],
  dsml_v4: ['deepseek-ai-DeepSeek-V4', 'deepseek-ai-DeepSeek-V4-Flash-0731'],
  functionary_v31: ['meetkai-functionary-medium-v3.1'],
  functools: ['fireworks-ai-llama-3-firefunction-v2'],
  gemma4: ['google-gemma-4-31B-it', 'google-gemma-4-31B-it-interleaved'],
  functionary_v32: ['meetkai-functionary-medium-v3.2'],
  gigachat3: ['GigaChat3-10B-A1.8B'],
  gigachat31: ['GigaChat3.1-10B-A1.8B'],
  glm45: [
    'GLM-4.6', 'Spark2.5', 'inclusionai-ling-3.0-flash', 'poolside-Laguna-S-2.1', 'poolside-Laguna-XS-2.1',
    'poolside-Laguna-XS.2',
  ],
  glm47: ['GLM-4.7-Flash'],
  granite3: ['ibm-granite-granite-3.3-2B-Instruct'],
  hermes: [
    'Bielik-11B-v3.0-Instruct', 'MiMo-VL', 'NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use',
    'NousResearch-Hermes-3-Llama-3.1-8B-tool_use', 'Qwen-QwQ-32B', 'Qwen-Qwen2.5-7B-Instruct', 'Qwen-Qwen3-0.6B',
    'Reka-Edge', 'ibm-granite-granite-4.0', 'ibm-granite-granite-4.1',
  ],
  harmony: ['openai-gpt-oss-120b'],
  hunyuan_opensource: ['tencent-Hy3'],
  kimi_k2: ['Kimi-K2-Instruct', 'Kimi-K2-Thinking', 'moonshotai-Kimi-K2'],
  kimi_k3: ['Kimi-K3'],
  lfm2: ['LFM2-8B-A1B', 'LFM2.5-8B-A1B', 'LFM2.5-Instruct'],
  llama3: ['meta-llama-Llama-3.1-8B-Instruct', 'meta-llama-Llama-3.2-3B-Instruct', 'meta-llama-Llama-3.3-70B-Instruct'],
  marker_json: [
    'HuggingFaceTB-SmolLM3-3B', 'google-gemma-2-2b-it', 'llama-cpp-rwkv-world', 'microsoft-Phi-3.5-mini-instruct',
    'upstage-Solar-Open-100B',
  ],
  minicpm5: ['openbmb-MiniCPM5-1B'],
  minimax_m2: ['MiniMax-M2'],
  minimax_m3: ['MiniMax-M3'],
  mistral_args: ['mistralai-Ministral-3-14B-Reasoning-2512', 'unsloth-mistral-Devstral-Small-2507'],
  mistral_args_id: ['Mistral-Small-3.2-24B-Instruct-2506'],
  mistral_array: ['mistralai-Mistral-Nemo-Instruct-2407'],
  muse: ['muse-glimmer'],
  qwen3_coder: ['NVIDIA-Nemotron-3-Nano-30B-A3B-BF16', 'Qwen3-Coder', 'Qwen3.5-4B', 'StepFun3.5-Flash'],
  seed_oss: ['ByteDance-Seed-OSS'],
  tool_calls: ['Apriel-1.6-15b-Thinker-fixed', 'MiniMax-M1', 'unsloth-Apriel-1.5'],
  toolcall: ['NVIDIA-Nemotron-Nano-v2'],
};

/** What it says on standard error, a line each. It ends with this status. */
async function probe(t, upstreams, status) {
  const directory = await mkdtemp(join(tmpdir(), 'tether-probe-'));
  t.after(() => rm(directory, { recursive: true }));
  const file = join(directory, 'tether.yml');
  await writeFile(file, JSON.stringify({ upstreams, tools: { builtin: [] } }));
  const child = spawn(process.env.TETHER_BIN, ['check', '--probe', '--config', file]);
  const exited = once(child, 'close');
  child.stdout.resume();
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { said += text; });
  assert.deepEqual(await exited, [status, null], said);
  return said.split('\n');
}

test('a real llama.cpp', async (t) => {
  const llama = await startLlama(t);
  const said = (await probe(t, [
    { name: 'chat', base_url: `${llama.origin}/v1`, call_contract: 'auto' },
    { name: 'completion', kind: 'llama_completion', base_url: llama.origin, call_contract: 'auto' },
  ], 0)).join('\n');
  t.diagnostic(said);
  for (const name of ['chat', 'completion']) {
    assert.match(said, new RegExp(`note: ${name}: it is llama.cpp; its model is smollm2-135m`));
    assert.match(said, new RegExp(`note: ${name}: its context has \\d+ tokens`));
    assert.match(said, new RegExp(`note: ${name}: \`call_contract: auto\` is marker_json`));
    assert.match(said, new RegExp(`note: ${name}: its chat template drops the tools, calls`));
    assert.match(said, new RegExp(`note: ${name}: test question .*(called calculate|no valid call)`));
  }
  assert.match(said, /note: chat: .*llama_grammar holds, structural_tag is refused .*, json_schema holds/);
  assert.match(said, /note: completion: `constrain` is auto: llama_grammar holds$/m);
  assert.match(said, /^ {2}\| <\|im_start\|>/m, 'what the template writes');
});

test('the format of each chat template', async (t) => {
  const names = (await readdir(process.env.CHAT_TEMPLATES)).sort();
  const templates = await Promise.all(
    names.map((name) => readFile(join(process.env.CHAT_TEMPLATES, name), 'utf8')));
  const server = createServer((request, response) => {
    const [, at, ...path] = request.url.split('?')[0].split('/');
    const answers = {
      models: { data: [{ id: 'model', owned_by: 'llamacpp' }] },
      props: { chat_template: templates[at] },
    };
    const answer = answers[path.join('/')];
    response.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? {}));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  const base = `http://127.0.0.1:${server.address().port}`;
  const said = await probe(t, names.map((name, at) => ({
    name: name.replace('.jinja', ''),
    kind: 'llama_completion',
    base_url: `${base}/${at}`,
    model: 'model',
    call_contract: 'auto',
    // They answer no question.
  })), 1);
  const found = {};
  for (const line of said) {
    const [, name, format] = line.match(/^note: (.*?): `call_contract: auto` is (\w+)/) ?? [];
    if (name) {
      (found[format] ??= []).push(name);
    }
  }
  for (const list of Object.values(found)) {
    list.sort();
  }
  assert.deepEqual(found, TEMPLATES);
});
