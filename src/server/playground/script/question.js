// Questions to the user: forms, choices, pages to visit, calls to approve.

const APPROVAL_DELAY_MS = 500; // Earlier presses were meant for what was there before.

// What asks, in words.
const KINDS = { mcp: 'an MCP server', http: 'an HTTP API', command: 'a program', rust: 'a tool' };
// What can be filled in or pressed in a question, links aside.
const CONTROLS = 'button, input, select, textarea';

// A question to the user. At most one is open: the last.
class Question {
  static open = null;
  #root = Object.assign(element('div', 'question'), { role: 'group' });
  #id;
  #wasTaken = false;
  // `asked` is what an event or the session tells of it.
  constructor(asked) {
    const { clarification_id, type, question, schema, url, source, tool_name, arguments: args } = asked;
    let options = asked.options ?? [];
    this.asked = asked;
    this.#id = clarification_id;
    const isApproval = type === 'confirmation', title = element('h2', '', question);
    title.id = `question-${clarification_id}`;
    this.#root.setAttribute('aria-labelledby', title.id);
    const asker = isApproval ? Question.#gatekeeper(source, tool_name) : Question.#asker(source);
    if (asker) this.#root.append(element('p', 'asker', asker));
    this.#root.append(title);
    if (args) this.#root.append(element('pre', '', `${tool_name} ${pretty(args)}`));
    else if (isApproval) {
      options = options.filter(({ id }) => id === 'deny');
      this.#root.append(element('p', 'wrong', 'Its arguments could not be loaded, so the call can only be denied.'));
    }
    if (url) this.#root.append(Object.assign(element('a', 'page', url), { href: url, target: '_blank', rel: 'noopener noreferrer' }));
    const isOneChoice = options.length > 0 && Object.keys(schema?.properties ?? {}).length < 2;
    if (schema && !isOneChoice) this.#root.append(this.#form(new Form(schema)));
    else if (options.length) this.#root.append(this.#choices(options, schema));
    if (!schema && (!options.length || ['text', 'choice_or_text'].includes(type))) this.#root.append(this.#field(question));
    $('log').append(this.#root);
    Question.open?.close();
    Question.open = this;
    $('prompt').placeholder = 'Answer above, or ask something else';
    if (isApproval) { this.#enableAfterDelay(); return; }
    // Whoever is writing goes on writing.
    if ([$('prompt'), document.body].includes(document.activeElement) && !$('prompt').value) this.#root.querySelector(CONTROLS).focus({ preventScroll: true });
  }
  // A key or a click that was meant for what was here before must approve nothing: the focus stays
  // where it is, and the buttons can be pressed only after a moment.
  #enableAfterDelay() {
    const controls = this.#root.querySelectorAll(CONTROLS), setEnabled = (isEnabled) => { for (const control of controls) control.disabled = !isEnabled; };
    setEnabled(false);
    setTimeout(() => { if (Question.open === this) setEnabled(true); }, APPROVAL_DELAY_MS);
  }
  // Where to scroll to show it below the header. Undefined from the second call on.
  takeScrollTop() {
    if (this.#wasTaken) return undefined;
    this.#wasTaken = true;
    return this.#root.offsetTop - document.querySelector('header').offsetHeight - 12;
  }
  static #kind(source) { return source?.name && (KINDS[source.kind] ?? source.kind); }
  static #asker(source) {
    const kind = Question.#kind(source);
    return kind && `${source.name}, ${kind}, asks`;
  }
  // Approvals are the gateway's own questions: whether somebody else may run a tool.
  static #gatekeeper(source, tool) {
    const kind = Question.#kind(source);
    if (!kind) return `Tether asks before it runs ${tool}`;
    if (source.name === tool) return `Tether asks before it runs ${tool} (${kind})`;
    return `Tether asks before ${source.name} (${kind}) runs ${tool}`;
  }
  #choices(options, schema) {
    const list = element('ul', 'options');
    const choose = (title, data, answer, subtitle) => {
      const button = element('button', '', title), item = element('li');
      Object.assign(button, { type: 'button' });
      Object.assign(button.dataset, data);
      if (subtitle) button.append(element('small', '', subtitle));
      button.addEventListener('click', () => this.#give(title, answer));
      item.append(button);
      list.append(item);
    };
    for (const { id, title, subtitle } of options) choose(title, { id }, { selected_option: { id } }, subtitle);
    if (Object.keys(schema?.properties ?? {}).length) choose('Decline', { action: 'decline' }, { action: 'decline' });
    return list;
  }
  #form(form) {
    const decline = element('button', '', 'Decline'), both = element('div', 'both');
    Object.assign(decline, { type: 'button' });
    decline.dataset.action = 'decline';
    decline.addEventListener('click', () => this.#give('Decline', { action: 'decline' }));
    both.append(element('button', '', 'Answer'), decline);
    form.root.append(both);
    form.root.addEventListener('submit', (event) => {
      event.preventDefault();
      const content = form.content();
      this.#give(form.words(content), { content });
    });
    return form.root;
  }
  #field(question) {
    const form = element('form'), input = element('input');
    Object.assign(input, { name: 'text', dir: 'auto', placeholder: 'In your own words', ariaLabel: question, autocomplete: 'off', required: true });
    form.append(input, element('button', '', 'Answer'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (input.value.trim()) this.#give(input.value, { text: input.value });
    });
    return form;
  }
  async #give(words, answer) {
    // The question appears a moment before its turn ends.
    await over;
    if (Question.open === this) send(words, { clarification_id: this.#id, ...answer });
  }
  // Answered or dropped: what was chosen stays to be seen.
  close(answer) {
    if (this.#root.contains(document.activeElement)) $('prompt').focus({ preventScroll: true });
    const given = answer?.clarification_id === this.#id ? answer : null;
    for (const control of this.#root.querySelectorAll(CONTROLS)) {
      control.disabled = true;
      const chosen = given && (given.selected_option ? control.dataset.id === given.selected_option.id : given.action && control.dataset.action === given.action);
      if (chosen) control.ariaPressed = 'true';
      if (given && control.name === 'text') control.value = given.text ?? '';
    }
    this.#root.classList.add('closed');
    Question.open = null;
    $('prompt').placeholder = 'Ask something';
  }
}

// The question that the session has open, if the page does not show it: its event was shortened, its
// turn is gone, or an answer was refused.
async function showOpenQuestion(known) {
  if (Question.open) return;
  const session = await readSession();
  const asked = session ? session.clarification : known;
  if (!asked || Question.open || running) return;
  $('welcome').hidden = true;
  new Question(asked);
}
