'use strict';

// What the other parts use: elements, JSON as people read it, and what the tab remembers.

const $ = (id) => document.getElementById(id);
const element = (tag, className = '', text = '') => Object.assign(document.createElement(tag), { className, textContent: text });
const add = (className, text = '') => { const node = element('div', className, text); $('log').append(node); return node; };
const count = (number, word) => `${number.toLocaleString('en')} ${word}${number === 1 ? '' : 's'}`;

// JSON with escapes in place of characters that nobody sees, or that turn text around: they could
// make a call look harmless that is not.
const UNSEEN = /[\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\x7f-\x9f]/gu;
const escaped = (char) => char.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
const json = (value, indent) => JSON.stringify(value, null, indent)?.replace(UNSEEN, escaped) ?? '';
const pretty = (value) => json(value, 2);
// Whether a part of an event was too long to be sent.
const isShortened = (data) => Object.keys(data).some((name) => name.endsWith('_truncated'));

const CHAT = 'api/v1/chat/stream';
const TURNS_KEPT = 4; // As many finished turns as a session holds for readers that come back.

// A browser may allow no storage. Then the page works, and remembers nothing over a reload.
const storage = (() => { try { return sessionStorage; } catch { return null; } })();

// What the tab remembers over a reload: its session, the turns to show again, and how many came before.
const kept = { session: newId(), turns: [], earlier: 0, ...JSON.parse(storage?.getItem('tether') ?? '{}') };
function keep() {
  const forget = (turns) => { kept.earlier += kept.turns.splice(0, turns).length; };
  forget(Math.max(0, kept.turns.length - TURNS_KEPT));
  while (storage) {
    try { storage.setItem('tether', JSON.stringify(kept)); return; } catch {
      // The prompts are long: fewer turns fit.
      if (!kept.turns.length) return;
      forget(1);
    }
  }
}
function drop(turn) {
  kept.turns = kept.turns.filter((other) => other !== turn);
  keep();
}
let running = null; // The `Follower` of the turn that runs.
let over = Promise.resolve(); // The end of that turn.

function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
