// Calls, and the files that tools return.

// The card of one call.
class Card {
  #root = element('details', 'call running');
  #name = element('b', '', 'a call');
  #given = element('span', 'given');
  #state = element('span', 'state', 'being written');
  #parts = element('dl');
  #written = null;
  #started = false;
  constructor() {
    const summary = element('summary');
    summary.append(element('span', 'light'), this.#name, this.#given, this.#state);
    this.#root.append(summary, this.#parts);
    $('log').append(this.#root);
  }
  state(text, outcome = 'running') { this.#state.textContent = text; this.#root.className = `call ${outcome}`; }
  part(title, text) {
    const pre = element('pre', '', text), body = element('dd');
    body.append(pre);
    this.#parts.append(element('dt', '', title), body);
    return pre;
  }
  writes(delta) { (this.#written ??= this.part('Arguments', '')).append(delta); }
  #setTitle(name, args) {
    this.#name.textContent = name;
    this.#given.textContent = Object.entries(args ?? {}).map(([key, value]) => `${key}: ${json(value)}`).join(', ');
  }
  starts(name, args, bytes) {
    this.#started = true;
    this.#setTitle(name, args);
    (this.#written ??= this.part('Arguments', '')).textContent = bytes ? `too long to be shown: ${count(bytes, 'byte')}` : pretty(args);
    this.state('running');
  }
  ends(result, bytes, ms) {
    const good = result?.success === true, end = result?.next_action === 'clarification_needed' ? 'asks' : good ? 'done' : 'failed';
    this.state(ms === undefined ? end : `${end} · ${ms} ms`, good ? 'good' : 'bad');
    this.part('Result', pretty(result) + (bytes ? `\n… shortened; the whole result has ${count(bytes, 'byte')}` : ''));
    for (const file of filesOf(result)) new Attachment(file);
  }
  // A call of an earlier turn, as its session tells it.
  showPast({ name, arguments: args, outcome }) {
    this.starts(name, args);
    const result = outcome.ended ?? outcome.not_run;
    if (result) this.ends(result);
    else this.state([outcome, ...Object.keys(outcome)].find((it) => typeof it === 'string').replaceAll('_', ' '), 'skipped');
  }
  // Its turn ends with the question whether it may run.
  awaitApproval(name, args) { this.#setTitle(name, args); this.state('needs approval', 'skipped'); }
  // Its turn is over.
  settle() { if (this.#root.classList.contains('running')) this.state(this.#started ? 'stopped' : 'not run', 'skipped'); }
  refused(reason, message) { this.state(reason.replaceAll('_', ' '), 'bad'); this.part('Feedback to the model', message); }
}

// The files that can be fetched. What a tool returns may have a member of this name that is something else.
const isFile = (it) => typeof it?.id === 'string' && /^[0-9a-f]{32}$/.test(it.id);
const filesOf = (result) => { const listed = result?.data?.artifacts; return Array.isArray(listed) ? listed.filter(isFile) : []; };

// Types that browsers show without running anything. SVG and other XML may contain scripts.
const IMAGES = /^image\/(png|jpeg|gif|webp|avif)$/;
const SOUNDS = /^audio\/(aac|flac|mp3|mp4|mpeg|ogg|wav|webm|x-wav)$/;

// A file that a tool returned: an image is shown, a sound can be played, and anything can be saved.
class Attachment {
  #file;
  #root = add('file');
  constructor(file) {
    this.#file = file;
    this.#root.append(element('span', 'status', `${this.#title()} …`));
    this.#show().catch((error) => this.#root.replaceChildren(element('span', 'status', `${this.#title()}: ${error.message}`)));
  }
  #title() {
    const { name, kind, mime_type, bytes } = this.#file;
    return `${name ?? kind}, ${mime_type}, ${count(Math.ceil(bytes / 1024), 'KiB').replace(/s$/, '')}`;
  }
  #name() {
    const { name, kind, id, mime_type } = this.#file, [, ending] = /^(?:image|audio|video)\/(?:x-)?(\w+)/.exec(mime_type) ?? [];
    return name ?? `${kind}-${id.slice(0, 8)}${ending ? `.${ending}` : ''}`;
  }
  async #show() {
    // Fetched here, because an img or audio element cannot send the key.
    const response = await request(`api/v1/artifacts/${this.#file.id}`);
    const bytes = await response.arrayBuffer();
    // With a type of its own, a file that is opened would be a page of this origin, and could use the API.
    const href = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
    const link = Object.assign(element('a', '', this.#title()), { href, download: this.#name() });
    this.#root.replaceChildren(...this.#preview(bytes), link);
  }
  #preview(bytes) {
    const type = this.#file.mime_type, source = () => URL.createObjectURL(new Blob([bytes], { type }));
    if (IMAGES.test(type)) return [Object.assign(element('img'), { src: source(), alt: this.#title() })];
    if (SOUNDS.test(type)) return [Object.assign(element('audio'), { src: source(), controls: true })];
    return [];
  }
}
