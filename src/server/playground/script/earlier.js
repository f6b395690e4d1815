// Turns that can no longer be followed, as the session tells them.

const EARLIER_MAX = 50;

// What the session tells of a turn that cannot be heard again: what was said, and the calls.
function showSteps({ steps }) {
  for (const { text, call } of steps.flatMap(({ parts }) => parts)) {
    if (text?.trim()) add('said', text.trim());
    if (call) new Card().showPast(call);
  }
}
const idOf = ({ location }) => location && new URLSearchParams(location.split('?')[1]).get('turn_id');

// The turns before those that the tab remembers.
async function showEarlier() {
  const place = add('status', `${count(kept.earlier, 'earlier turn')} of this session not shown`);
  const heard = kept.turns.map(idOf), session = await readSession();
  const turns = session?.turns.filter(({ turn_id }) => !heard.includes(turn_id)) ?? [];
  if (!turns.length) return;
  const shown = turns.slice(-EARLIER_MAX), missing = session.dropped_turns + turns.length - shown.length;
  // Everything is appended to the log; what is new is then moved up.
  const before = $('log').childNodes.length;
  if (missing) add('status', `${count(missing, 'earlier turn')} of this session not shown`);
  for (const turn of shown) {
    add('user', turn.prompt);
    showSteps(turn);
  }
  place.replaceWith(...[...$('log').childNodes].slice(before));
}
