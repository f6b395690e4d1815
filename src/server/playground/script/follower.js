// Following a turn: its frames, its connections, and when to give up.

const TRIES_MAX = 6; // Without a single frame between them: some 15 s in all.
const PAUSE_MS = 250; // Before the second try; each further pause is twice as long.
const SILENCE_MS = 60_000; // Several keep-alives of the gateway: the connection is dead.
const STOP_MS = 3000; // For the stream of a stopped turn to say that it has ended.

// The frames of a stream, all that a chunk completes at a time.
async function* frames(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    yield blocks.map((block) => Object.fromEntries(block.split('\n').map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)])));
  }
}

// Begins a turn, or re-joins it after what is known of it. Until an answer has come, the same key
// makes sure that it begins once.
const open = (turn, signal) => turn.location
  ? request(turn.location, { signal, headers: turn.last ? { 'last-event-id': turn.last } : {} })
  : post(CHAT, { session_id: kept.session, ...turn.body }, { signal, headers: { 'idempotency-key': turn.key } });

// One connection to a turn. It is cut if it is silent for too long, or if the network has changed.
class Connection {
  #cut = new AbortController();
  #silence;
  signal = this.#cut.signal;
  // The gateway has answered, so it will say how the turn ends.
  isUp = false;
  constructor() {
    addEventListener('online', () => this.cut(), { signal: this.signal });
    this.restartSilence();
  }
  restartSilence() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.cut(), SILENCE_MS);
  }
  cut() {
    clearTimeout(this.#silence);
    this.isUp = false;
    this.#cut.abort(new Error('The connection is lost.'));
  }
}

// Follows a turn to its end, through broken connections.
class Follower {
  #turn; #view; #connection;
  #stopped = new AbortController();
  #isStopping = false;
  constructor(turn, view) { this.#turn = turn; this.#view = view; }

  // Asks the gateway to end the turn, whose stream then says so. Without a stream, or on the second call,
  // the page abandons the turn.
  stop() {
    cancel();
    const connection = this.#connection;
    if (this.#isStopping || !connection.isUp) {
      this.#stopped.abort(new Refusal('Stopped while the gateway did not answer.'));
      connection.cut();
    }
    this.#isStopping = true;
    // A dead connection would never say that the turn has ended; the next one does.
    setTimeout(() => connection.cut(), STOP_MS);
  }

  async run() {
    for (let tries = 0; ;) {
      let cause = new Error('The connection is lost.');
      try {
        if (await this.#follow(() => { tries = 0; })) return;
      } catch (error) {
        if (error instanceof Refusal) throw error;
        // What browsers say of a broken stream tells people nothing.
        if (error.constructor === Error) cause = error;
      }
      this.#stopped.signal.throwIfAborted();
      if (tries >= TRIES_MAX) {
        // A prompt that was never accepted is not sent by itself minutes later.
        if (!this.#turn.location) throw cause;
        await this.#view.untilRejoin(this.#stopped.signal);
        this.#stopped.signal.throwIfAborted();
        tries = 0;
      }
      this.#view.lost();
      await this.#pause(PAUSE_MS * 2 ** tries++, () => { tries = 0; });
      this.#stopped.signal.throwIfAborted();
    }
  }
  // Shows the events of one connection. Returns whether the turn has ended.
  async #follow(progress) {
    const turn = this.#turn, connection = this.#connection = new Connection();
    try {
      const response = await open(turn, connection.signal);
      if (response.status === 204) return true;
      connection.isUp = true;
      for await (const block of frames(response)) {
        connection.restartSilence();
        if (block.length) this.#view.joined();
        // Only now: if the connection breaks within the head, browsers still deliver it, perhaps with half an
        // address.
        if (!turn.location) {
          turn.location = response.headers.get('location');
          keep();
        }
        const events = block.filter(({ data }) => data).map(({ id, data }) => ({ id, ...JSON.parse(data) }));
        note(events);
        for (const event of events) {
          this.#view.show(event);
          turn.last = event.id;
          progress();
          if (LAST_EVENTS.includes(event.type)) return true;
        }
      }
      return false;
    } finally { connection.cut(); }
  }
  // Ends early if the browser is online again, or if the page leaves the turn.
  #pause(ms, online) {
    const listeners = new AbortController(), { signal } = listeners;
    return new Promise((wake) => {
      setTimeout(wake, ms);
      addEventListener('online', () => { online(); wake(); }, { signal });
      this.#stopped.signal.addEventListener('abort', wake, { signal });
    }).finally(() => listeners.abort());
  }
}
