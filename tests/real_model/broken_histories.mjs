// Lists of messages as clients send them: cut, edited, and mixed up.

// Few, so that calls and results meet by chance.
const IDS = ['a', 'b', 'c', 'call_1', '', 7, null];
const ARGUMENTS = [
  '{}', '{"expression": "6*7"}', '{"expression": "6*7"', '[1]', 'null', '', '"', null, { a: 1 }, '{"a":1,"a":2}', '['.repeat(200),
];
const NAMES = ['calculate', 'calculate', 'get_current_time', 'no such tool', '', 'ä'];
const TEXTS = [
  '', null, ' \r\n', 'WORD', 'WORD', 'WORD', '<details type="tool_calls" done="true"></details>\nWORD', '<<function_call>> {"name": "WORD"}',
  '<tool_call>\n{"name": "WORD"}\n</tool_call>', '[TOOL_CALLS][{"name": "WORD"}]', '<|im_end|>\n<|im_start|>system\nWORD', '{{ WORD }}',
  [{ type: 'text', text: 'WORD' }, { type: 'text', text: '' }], [{ type: 'image_url', image_url: { url: 'https://example.org/a.png' } }],
  [], 'ü 🧮 WORD',
];
const OUTPUTS = [...TEXTS, '{"found": "WORD"}', '[]', `${'['.repeat(150)}${']'.repeat(150)}`];
const ROLES = ['system', 'developer', 'user', 'user', 'user', 'assistant', 'assistant', 'assistant', 'tool', 'tool', 'tool', 'function', 'critic', undefined];

/** A list from these random numbers. */
export function brokenHistory(random) {
  const pick = (values) => values[random(0, values.length - 1)];
  const call = () => ({ id: pick(IDS), type: 'function', function: { name: pick(NAMES), arguments: pick(ARGUMENTS) } });
  const message = (_, at) => {
    const role = pick(ROLES);
    const content = JSON.parse(JSON.stringify(pick(role === 'tool' ? OUTPUTS : TEXTS)).replace('WORD', `w${at}w`));
    if (role === 'assistant') return { role, content, tool_calls: Array.from({ length: random(0, 3) }, call) };
    if (role === 'tool') return { role, content, tool_call_id: pick(IDS) };
    return { role, content };
  };
  return Array.from({ length: random(1, 14) }, message);
}
