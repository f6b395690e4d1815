// Requests to the gateway, and the key that some gateways require.

const CHAT = 'api/v1/chat/stream';
const KEEPALIVE_BYTES = 60_000; // Browsers allow 64 KiB for all `keepalive` bodies in flight.

// A failure that a retry does not cure.
class Refusal extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

// What a header can carry. Nothing else can be a key, and the browser would refuse each request with it.
const KEY = /^[\x21-\x7e]+$/;
let key = storage?.getItem('tether.key') ?? null;
if (!KEY.test(key ?? '')) key = null;
function keepKey(given) {
  key = given;
  try { if (key) storage?.setItem('tether.key', key); else storage?.removeItem('tether.key'); } catch { /* It is asked for again after a reload. */ }
}

// A request with the key, if there is one.
function authorized(path, init = {}) {
  const asked = fetch(path, { ...init, headers: { ...init.headers, ...(key && { authorization: `Bearer ${key}` }) } });
  // Browsers say "Failed to fetch", "Load failed" and the like.
  return asked.catch((error) => { throw error instanceof TypeError ? new Error('The gateway cannot be reached. Is it running?') : error; });
}
async function request(path, init) {
  for (;;) {
    const used = key, response = await authorized(path, init);
    if (response.ok) return response;
    if (response.status === 401) { await askForKey(used); continue; }
    const message = (await response.json().catch(() => null))?.error?.message ?? `the gateway answered ${response.status}`;
    throw response.status < 500 ? new Refusal(message, response.status) : new Error(message);
  }
}
function post(path, content, { headers, signal } = {}) {
  const body = new TextEncoder().encode(JSON.stringify(content));
  // The request outlives the page, unless the prompt is long.
  return request(path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body, signal, keepalive: body.length < KEEPALIVE_BYTES });
}
// A turn that has ended meanwhile needs no cancelling.
const cancel = () => post('api/v1/chat/cancel', { session_id: kept.session }).catch(() => {});

// The session as the gateway keeps it, or null. Nobody is asked for a key just for that.
async function readSession() {
  const response = await authorized(`api/v1/sessions/${kept.session}`).catch(() => null);
  return response?.ok ? response.json().catch(() => null) : null;
}

// Asks for another key than the one that was refused, once for all requests that need one.
let asking = null;
async function askForKey(refused) {
  if (key !== refused) return;
  if (refused) keepKey(null);
  asking ??= showLock(refused ? 'The gateway does not accept this key.' : '').finally(() => { asking = null; });
  await asking;
}
async function showLock(complaint) {
  $('wrong').textContent = complaint;
  $('locked').returnValue = '';
  $('locked').showModal();
  $('key').select();
  await new Promise((closed) => $('locked').addEventListener('close', closed, { once: true }));
  if ($('locked').returnValue !== 'use') throw new Refusal('This gateway requires an API key.', 401);
  keepKey($('key').value.trim());
  showTools().catch(() => {});
}
