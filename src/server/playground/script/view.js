// What a turn looks like.

const LAST_EVENTS = ['turn_completed', 'turn_failed'];
const NODE_CHARS_MAX = 4096; // What is appended to one text node is copied with all of it.

// Whether a part of an event was too long to be sent.
const isShortened = (data) => Object.keys(data).some((name) => name.endsWith('_truncated'));

// One turn on the page. A method named after an event shows it.
class View {
  #text = null; #cards = new Map(); #waiting = add('waiting'); #about = $('about').textContent;
  // A question that was too long for its event.
  shortened = null;
  show({ type, data }) {
    if (!Object.hasOwn(View.prototype, type)) return; // An event of a later version.
    this[type](data);
    if (LAST_EVENTS.includes(type)) this.close();
    else if ($('log').lastChild !== this.#waiting) $('log').append(this.#waiting);
  }
  close() {
    this.#end();
    this.#waiting.remove();
    this.joined();
    for (const card of this.#cards.values()) card.settle();
  }
  lost(words = 'connection lost, re-joining …') { $('about').textContent = words; }
  // A stream that is re-joined does not say again what `turn_started` said.
  joined() { $('about').textContent = this.#about; }
  // Waits until a new try makes sense: the browser is online again, or the user wants it. Or until the
  // turn is left.
  async untilRejoin(stopped) {
    this.lost('connection lost');
    const row = element('div', 'status', 'The connection is lost. The answer may continue without it. '), button = Object.assign(element('button', '', 'Re-join'), { type: 'button' });
    row.append(button);
    this.#waiting.replaceWith(row);
    const listeners = new AbortController(), { signal } = listeners;
    try {
      await new Promise((again) => {
        addEventListener('online', again, { signal });
        button.addEventListener('click', again, { signal });
        stopped.addEventListener('abort', again, { signal });
      });
    } finally {
      listeners.abort();
      if (document.activeElement === button) $('prompt').focus({ preventScroll: true });
      row.replaceWith(this.#waiting);
    }
  }

  turn_started(d) { this.#about = `${d.model} · session ${d.session_id.slice(0, 8)}`; this.joined(); }
  text_delta(d) { if (d.loop) this.#end(); this.#speak('said', d.text); }
  reasoning_delta(d) { this.#speak('thought', d.text); }
  acknowledgement(d) { if (d.source === 'hints') { this.#end(); add('said', d.text); } }
  // The message that the model is writing may go on after it, in the same paragraph.
  status(d) { add('status', d.message); }
  loop_limit_reached(d) { this.#end(); this.status({ message: `${count(d.max_tool_loops, 'round')} with tools is the limit; the last answer follows.` }); }

  tool_marker_detected(d) { this.#card(d.call_id); }
  tool_arguments_delta(d) { this.#card(d.call_id).writes(d.delta); }
  tool_started(d) { this.#card(d.call_id).starts(d.tool_name, d.tool_args, d.tool_args_truncated); }
  tool_progress(d) { this.#card(d.call_id).state(d.message ?? `${d.progress}${d.total ? ` / ${d.total}` : ''}`); }
  tool_completed(d) {
    this.#card(d.call_id).ends(d.tool_result, d.tool_result_truncated, d.duration_ms);
  }
  feedback(d) {
    if (d.call_id) this.#card(d.call_id).refused(d.reason, d.message);
    else this.status({ message: `Feedback to the model: ${d.message}` });
  }
  clarification_needed(d) {
    this.#end();
    if (d.type === 'confirmation') this.#card(d.call_id).awaitApproval(d.tool_name, d.arguments);
    if (isShortened(d)) this.shortened = d; else new Question(d);
  }

  turn_completed(d) {
    const why = d.finish_reason === 'stop' ? [] : [d.finish_reason.replaceAll('_', ' ')];
    add('end', [...why, count(d.loops, 'round'), count(d.tool_calls, 'call'), count(d.usage.total_tokens, 'token')].join(' · '));
  }
  turn_failed(d) { add('end bad', `${d.code.replaceAll('_', ' ')}: ${d.message}`); }

  #card(id) {
    if (!this.#cards.has(id)) {
      this.#end();
      this.#cards.set(id, new Card());
    }
    return this.#cards.get(id);
  }
  // Goes on in the same paragraph.
  #speak(className, text) {
    if (this.#text?.parentNode.className !== className) {
      this.#end();
      text = text.trimStart();
      if (!text) return;
      this.#text = add(className).appendChild(document.createTextNode(''));
    }
    if (this.#text.length > NODE_CHARS_MAX) this.#text = this.#text.parentNode.appendChild(document.createTextNode(''));
    this.#text.appendData(text);
  }
  // Takes white space off the end, and leaves the rest as it is: some of it may be selected.
  #end() {
    for (let node = this.#text; node; node = node.previousSibling) {
      const length = node.data.trimEnd().length;
      node.deleteData(length, node.length);
      if (length) break;
    }
    this.#text = null;
  }
}
