'use strict';

// Elements, and values as people read them.

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
