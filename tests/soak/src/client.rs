//! A client: one turn after another, each on a stream that it reads, cuts, joins again, or leaves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::answer::Answer;
use crate::clock::{micros, now_us};
use crate::connection::{Connection, Read};
use crate::directive::Directive;
use crate::random::Random;
use crate::reading::{End, Reading};
use crate::tally::{Count, Tally};
use crate::world::{Habit, World, number_turn};

/// How much longer than its tokens a turn may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest wait for an answer without a stream.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// The wait before another attempt after a refusal: what the gateway asks for.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// One turn in so many calls tools, and so often.
const TOOLS_ONE_IN: u64 = 5;
const CALLS: u64 = 2;
/// One session in so many stays when its turn is over.
const KEPT_ONE_IN: u64 = 10;
/// The tokens of clients that stop reading are this much longer, so that buffers fill.
const STALLED_PADDING: u64 = 1024;
/// The shortest and the longest stall that the gateway accepts, and when it begins.
const STALL: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(20));
const STALL_AFTER: Duration = Duration::from_secs(3);
/// The longest turn of a client that stops reading: its tokens take memory.
const STALLED_TURN_MAX: Duration = Duration::from_secs(60);
/// A turn that is shorter is not worth it.
const TOKENS_MIN: u64 = 4;

#[derive(Debug)]
pub(crate) struct Client {
    world: Arc<World>,
    number: u64,
    habit: Habit,
    random: Random,
    connection: Option<Connection>,
}

/// A turn that a client asks for.
#[derive(Debug)]
struct Turn {
    reading: Reading,
    session: String,
    prompt: String,
    /// Whether the gateway has its request.
    is_asked: bool,
    cut_at: Instant,
    stall: Option<Stall>,
    /// When it has to be over.
    patience: Instant,
    has_stalled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Stall {
    at: Instant,
    lasts: Duration,
}

/// What ended the reading of an answer.
#[derive(Debug)]
enum Outcome {
    /// The answer is there as a whole.
    Done,
    /// The client cuts the connection.
    Cut,
    /// The client leaves the turn.
    Left,
    /// The gateway has cut the connection, or said something strange.
    Broken,
    /// Nothing came for too long.
    Hung,
    /// There is no connection.
    Unconnected,
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, number: u64) -> Self {
        let (habit, random) = (world.habit(number), Random::new(world.load.seed, number));
        Self { world: Arc::clone(world), number, habit, random, connection: None }
    }

    /// Begins turns until the phase is over, and ends with its last one.
    pub(crate) async fn run(mut self) {
        sleep_until(self.world.arrival(self.number)).await;
        while let Some(turn) = self.plan() {
            self.turn(turn).await;
        }
    }

    /// The next turn; none if there is no time for one.
    fn plan(&mut self) -> Option<Turn> {
        let load = &self.world.load;
        let now = Instant::now();
        let left = self.world.departure(self.number).saturating_duration_since(now);
        let random = &mut self.random;
        let length = match (load.turns, load.long_stall) {
            (None, _) => left,
            (_, Some(stall)) if self.habit == Habit::Stalls => 2 * stall,
            (Some((_, most)), _) if self.habit != Habit::Reads => most.min(STALLED_TURN_MAX),
            (Some((least, most)), _) => random.between(least, most),
        };
        let tokens = micros(length.min(left)) / micros(load.interval).max(1);
        if tokens < TOKENS_MIN {
            return None;
        }
        let turn = number_turn();
        let calls = if random.once_in(TOOLS_ONE_IN) { CALLS } else { 0 };
        let padding = if self.habit == Habit::Reads { 0 } else { STALLED_PADDING };
        let directive = Directive { turn, tokens, calls, padding };
        let lasts = match (self.habit, load.long_stall) {
            (Habit::Reads, _) => None,
            (Habit::Stalls, Some(stall)) => Some(stall),
            _ => Some(random.between(STALL.0, STALL.1)),
        };
        Some(Turn {
            reading: Reading::new(directive, self.habit == Habit::Reads),
            session: format!("soak-{turn}"),
            prompt: directive.prompt(),
            is_asked: false,
            cut_at: now + random.wait(load.cut_every),
            stall: lasts.map(|lasts| Stall { at: now + STALL_AFTER, lasts }),
            patience: now + length.min(left) + lasts.unwrap_or_default() + PATIENCE,
            has_stalled: false,
        })
    }

    /// Asks for a turn and reads it to its end, on as many connections as that takes.
    async fn turn(&mut self, mut turn: Turn) {
        let tally = &Arc::clone(&self.world).tally;
        loop {
            turn.reading.begin_answer();
            let request = turn.request(self.world.gateway);
            let asked_at = now_us();
            let outcome = self.answer(&request, &mut turn).await;
            if matches!(outcome, Outcome::Done) && turn.reading.end().is_some() {
                return self.finish(turn).await;
            }
            self.connection = None;
            match outcome {
                Outcome::Done => return turn.turned_away(now_us() - asked_at, tally).await,
                Outcome::Left => return turn.end_early(&tally.abandoned, tally),
                Outcome::Hung => {
                    tally.keep_sample(|| format!("hung: {:?}", turn.reading));
                    return turn.end_early(&tally.hung, tally);
                }
                Outcome::Cut => {
                    tally.cuts.one();
                    turn.cut_at = Instant::now() + self.random.wait(self.world.load.cut_every);
                }
                Outcome::Broken if turn.has_stalled => tally.cut_stalled.one(),
                Outcome::Broken => {
                    tally.cut_others.one();
                    tally.keep_sample(|| format!("cut: {:?}", turn.reading));
                }
                Outcome::Unconnected => {
                    tally.unconnected.one();
                    sleep_until(Instant::now() + RETRY_AFTER).await;
                }
            }
            if turn.patience < Instant::now() {
                return turn.end_early(&tally.hung, tally);
            }
        }
    }

    /// Asks, and reads the answer as far as the client wants to.
    async fn answer(&mut self, request: &str, turn: &mut Turn) -> Outcome {
        let (tally, asked_at) = (&self.world.tally, now_us());
        if self.connection.is_none() {
            let is_slow = self.habit != Habit::Reads;
            self.connection = Connection::open(self.world.gateway, self.number, is_slow).await.ok();
        }
        let Some(connection) = &mut self.connection else { return Outcome::Unconnected };
        if connection.send(request.as_bytes()).await.is_err() {
            return Outcome::Broken;
        }
        turn.is_asked = true;
        let mut due = std::pin::pin!(sleep_until(turn.due()));
        loop {
            let reading = &mut turn.reading;
            let is_first = reading.sequence() == 0;
            let read = connection.read(due.as_mut(), |bytes| reading.push(bytes, tally)).await;
            if is_first && reading.sequence() > 0 {
                tally.begun.one();
                tally.first_event.record(now_us() - asked_at);
            }
            match read {
                Read::Bytes(Ok(())) if reading.answer().is_done() => return Outcome::Done,
                Read::Bytes(Ok(())) => {}
                Read::Bytes(Err(_)) | Read::End => return Outcome::Broken,
                Read::Due => {
                    if let Some(outcome) = turn.pass_moment(self.habit, tally).await {
                        return outcome;
                    }
                    due.as_mut().reset(turn.due());
                }
            }
        }
    }

    /// Counts a turn that is over, and forgets its session in most cases.
    async fn finish(&mut self, mut turn: Turn) {
        let tally = &self.world.tally;
        turn.reading.finish(tally);
        match turn.reading.end() {
            Some(End::Completed) => tally.completed.one(),
            Some(End::Cancelled) => tally.cancelled.one(),
            _ => tally.failed.one(),
        }
        if turn.reading.answer().closes() {
            self.connection = None;
        }
        if !self.random.once_in(KEPT_ONE_IN) {
            self.delete(&turn.session).await;
        }
    }

    /// Deletes a session, on the connection of its turn.
    async fn delete(&mut self, session: &str) {
        let tally = &self.world.tally;
        let Some(connection) = &mut self.connection else { return };
        let host = self.world.gateway;
        let request = format!("DELETE /api/v1/sessions/{session} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut answer = Answer::new();
        let mut due = std::pin::pin!(sleep_until(Instant::now() + ANSWER_PATIENCE));
        let mut is_open = connection.send(request.as_bytes()).await.is_ok();
        while is_open && !answer.is_done() {
            let read = connection.read(due.as_mut(), |bytes| answer.push(bytes, |_| ())).await;
            is_open = matches!(read, Read::Bytes(Ok(())));
        }
        if is_open && matches!(answer.status(), 200 | 204) {
            tally.deleted.one();
        } else {
            tally.strange.one();
            tally.keep_sample(|| format!("DELETE: {answer:?}"));
            self.connection = None;
        }
    }
}

impl Turn {
    /// The request for its next answer.
    fn request(&self, host: SocketAddr) -> String {
        let Self { session, prompt, .. } = self;
        if !self.is_asked {
            let body = format!("{{\"session_id\":\"{session}\",\"prompt\":\"{prompt}\"}}");
            return format!(
                "POST /api/v1/chat/stream HTTP/1.1\r\nHost: {host}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
        let last = match self.reading.sequence() {
            0 => String::new(),
            sequence => format!("Last-Event-ID: 1-{sequence}\r\n"),
        };
        format!(
            "GET /api/v1/chat/stream?session_id={session} HTTP/1.1\r\nHost: {host}\r\n{last}\r\n"
        )
    }

    /// Counts an answer that is not its stream. After a refusal, the client waits.
    async fn turned_away(&self, took: u64, tally: &Tally) {
        let answer = self.reading.answer();
        if !matches!(answer.status(), 429 | 503) {
            tally.strange.one();
            tally.keep_sample(|| format!("{answer:?}"));
            return;
        }
        tally.refused.one();
        tally.refusal.record(took);
        if !answer.has_retry_after() {
            tally.refused_without_time.one();
        }
        sleep_until(Instant::now() + RETRY_AFTER).await;
    }

    /// Counts a turn that its client does not read to the end, for this reason.
    fn end_early(&self, reason: &Count, tally: &Tally) {
        reason.one();
        if self.reading.sequence() == 0 {
            // Not even its first event had come.
            tally.begun.one();
        }
        self.reading.count(tally);
    }

    /// When its client does something other than reading.
    fn due(&self) -> Instant {
        let due = self.cut_at.min(self.patience);
        self.stall.map_or(due, |stall| due.min(stall.at))
    }

    /// Does what is due. `None`: the client reads on.
    async fn pass_moment(&mut self, habit: Habit, tally: &Tally) -> Option<Outcome> {
        let now = Instant::now();
        if let Some(Stall { at, lasts }) = self.stall
            && at <= now
        {
            self.stall = None;
            tally.stalls.one();
            sleep_until(at + lasts).await;
            self.has_stalled = habit == Habit::Stalls;
            return (habit == Habit::Leaves).then_some(Outcome::Left);
        }
        if self.patience <= now {
            return Some(Outcome::Hung);
        }
        if self.cut_at <= now {
            if self.reading.sequence() > 0 {
                return Some(Outcome::Cut);
            }
            // There is nothing to cut yet.
            self.cut_at = now + Duration::from_secs(1);
        }
        None
    }
}
