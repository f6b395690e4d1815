// What happens when something is sent, pressed or loaded again.

let running = null; // The `Follower` of the turn that runs.
let over = Promise.resolve(); // The end of that turn.

// Plays a turn from its prompt on. Returns what is known of a question that the page does not show yet,
// or null.
async function play(turn) {
  const { promise, resolve: end } = Promise.withResolvers();
  over = promise;
  setBusy(true);
  const before = Question.open?.asked;
  Question.open?.close(turn.body.clarification_response);
  add('user', turn.prompt);
  const view = new View();
  running = new Follower(turn, view);
  let unshown = null;
  try { await running.run(); } catch (error) {
    view.close();
    // A turn that never began has left the question before it open.
    unshown = { asked: turn.location ? null : before };
    // Its events are no longer kept.
    const past = error.status === 410 && (await readSession())?.turns.find(({ turn_id }) => turn_id === idOf(turn));
    if (past) showSteps(past);
    else add('end bad', giveUp(turn, error));
  }
  view.close();
  setBusy(false);
  running = null;
  end();
  return view.shortened ? { asked: view.shortened } : unshown;
}

function setBusy(isBusy) {
  if (isBusy) $('welcome').hidden = true;
  $('send').textContent = isBusy ? 'Stop' : 'Send';
  $('send').classList.toggle('stop', isBusy);
  $('log').ariaBusy = String(isBusy);
}

// Gives up on a turn that could not be followed, and returns what to tell the user. A reload must not
// begin a turn that never began, so its prompt goes back into the field.
function giveUp(turn, error) {
  if (turn.location) {
    if (error.status !== 404) return error.message;
    drop(turn);
    return 'The gateway no longer has this conversation: it was deleted or has expired, or the gateway was restarted and kept it only in memory. Your next message begins a new conversation.';
  }
  drop(turn);
  if (!turn.body.prompt) return error.message;
  if (!$('prompt').value) write(turn.body.prompt);
  return error instanceof Refusal ? error.message : `${error.message} Your message may not have arrived.`;
}

async function send(prompt, answer) {
  if (running || !prompt.trim()) return;
  const turn = { prompt, key: newId(), body: answer ? { clarification_response: answer } : { prompt } };
  kept.turns.push(turn);
  keep();
  follows = true;
  const unshown = await play(turn);
  if (unshown) await showOpenQuestion(unshown.asked);
}

async function replay() {
  if (!kept.turns.length) return;
  if (kept.earlier) showEarlier();
  let unshown;
  for (const turn of [...kept.turns]) {
    delete turn.last;
    unshown = await play(turn);
  }
  await showOpenQuestion(unshown?.asked);
}

// Browsers without `field-sizing` get the height of the prompt's field from its text.
function fit() {
  if (CSS.supports('field-sizing', 'content')) return;
  const { style } = $('prompt');
  style.height = 'auto';
  style.height = `${$('prompt').scrollHeight + 2}px`;
}
function write(prompt) { $('prompt').value = prompt; fit(); }

$('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  if (running) { running.stop(); return; }
  const prompt = $('prompt').value;
  write('');
  send(prompt);
});
// The second click of two that meant to send does not stop the turn.
$('send').addEventListener('click', (event) => { if (running && event.detail > 1) event.preventDefault(); });
$('prompt').addEventListener('input', fit);
$('prompt').addEventListener('keydown', (event) => {
  // Safari ends a composition before the Enter that ended it, which has this code.
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  if (!running) $('ask').requestSubmit();
});
$('fresh').addEventListener('click', () => {
  if (running) cancel();
  // Late events of the old turn must not bring the session back.
  Object.assign(kept, { session: newId(), turns: [], earlier: 0 });
  keep();
  location.reload();
});
$('leave').addEventListener('click', () => $('locked').close());
$('locked').addEventListener('submit', (event) => {
  if (KEY.test($('key').value.trim())) return;
  event.preventDefault();
  $('wrong').textContent = 'A key has only letters, digits and signs from an English keyboard, without spaces.';
});
$('toggle').addEventListener('click', () => {
  $('events').hidden = !$('events').hidden;
  $('toggle').ariaExpanded = String(!$('events').hidden);
  $('rows').scrollTop = $('rows').scrollHeight;
  toEnd();
});
// The arrow keys move from line to line. The line with the focus is open, as is the one under the mouse.
$('rows').addEventListener('keydown', (event) => {
  const step = { ArrowUp: 'previousElementSibling', ArrowDown: 'nextElementSibling' }[event.key], at = document.activeElement;
  if (!step) return;
  event.preventDefault();
  (at === $('rows') ? at.lastElementChild : at[step])?.focus();
});
for (const hint of document.querySelectorAll('.hints button')) hint.addEventListener('click', () => send(hint.firstChild.data));

function showCommand(takesKey) {
  const header = takesKey ? ` -H 'Authorization: Bearer KEY'` : '';
  $('shell').textContent = `curl -N ${new URL(CHAT, location)}${header} -d '{"prompt":"What time is it in Tokyo?"}'`;
}
// A key is asked for when something is sent, not before.
async function showTools() {
  showCommand(key);
  const response = await authorized('api/v1/tools');
  if (response.status === 401) {
    showCommand(true);
    $('tools').textContent = 'listed once you have entered an API key';
  }
  if (!response.ok) return;
  const { tools } = await response.json();
  const names = tools.map(({ name, description }) => Object.assign(element('code', '', name), { title: description }));
  $('tools').replaceChildren(...(names.length ? names.flatMap((name) => [name, ' ']) : ['none']));
  for (const hint of document.querySelectorAll('.hints [data-tool]')) hint.hidden = !tools.some(({ name }) => name === hint.dataset.tool);
}

showTools().catch(() => {});
addEventListener('pageshow', fit);
watchReader();
replay();
