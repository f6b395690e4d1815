//! One turn as it is read from the gateway: begun, and joined again whenever the connection breaks.
//!
//! ```text
//!   POST, with an Idempotency-Key ──> events ──> the last one: done
//!     ^ nothing heard yet               │ cut
//!     '──────── wait, twice as long ────┤
//!   GET, with Last-Event-ID <───────────' some have been heard
//! ```
//! A POST that is repeated with its key begins no second turn, and an event that was heard before
//! is dropped, so nothing is lost or shown twice.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::event::{Event, Position};
use super::gateway::{ApiError, Gateway};
use crate::limits::chat::{EVENTS_WAITING_MAX, REJOIN_ATTEMPTS_MAX, REJOIN_BACKOFF, SILENCE_MAX};
use crate::tools::outbound::Body;
use crate::upstream::sse::{Decoder, Field};

/// How a turn is entered.
#[derive(Debug)]
pub(super) enum Entry {
    /// The body of the request that begins it.
    Begin(Value),
    /// The id of a turn that is running.
    Join(String),
}

/// What is heard of a turn.
#[derive(Debug)]
pub(super) enum Heard {
    Event(Event),
    /// The connection broke, for this reason; it will be made again.
    Cut(String),
    /// The connection is back.
    Back,
}

/// A turn that is being read by a task of its own.
///
/// Dropping it stops reading; the gateway then cancels the turn after a while.
#[derive(Debug)]
pub(super) struct Turn {
    heard: Receiver<Result<Heard, TurnError>>,
    reader: AbortHandle,
}

/// Why a turn cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum TurnError {
    /// It was not begun.
    #[error("{0}")]
    NotBegun(#[source] ApiError),
    /// It was begun, but cannot be joined again.
    #[error("lost the turn: {0}")]
    Lost(#[source] ApiError),
    #[error("lost the turn: the gateway no longer has it")]
    Gone,
    /// The connection breaks again and again.
    #[error("lost the turn: {0}, {REJOIN_ATTEMPTS_MAX} times in a row")]
    Broken(String),
    #[error("the gateway sent something that is not a turn event; is it a different version?")]
    Malformed,
}

impl Turn {
    /// Enters a turn of this session.
    pub(super) fn enter(gateway: &Gateway, session: &str, entry: Entry) -> Self {
        let (sender, heard) = mpsc::channel(EVENTS_WAITING_MAX);
        let (turn_id, body) = match entry {
            Entry::Begin(body) => (None, body),
            Entry::Join(turn_id) => (Some(turn_id), Value::Null),
        };
        let reader = Reader {
            gateway: gateway.clone(),
            session: session.to_owned(),
            body,
            key: Uuid::new_v4().to_string(),
            turn_id,
            last: None,
            sender,
        };
        Self { heard, reader: tokio::spawn(reader.run()).abort_handle() }
    }

    /// What is heard next; `None` after the last event. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Result<Heard, TurnError>> {
        self.heard.recv().await
    }

    /// What has been heard already, without waiting.
    pub(super) fn ready(&mut self) -> Option<Result<Heard, TurnError>> {
        self.heard.try_recv().ok()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

struct Reader {
    gateway: Gateway,
    session: String,
    body: Value,
    key: String,
    /// Known from the first event on.
    turn_id: Option<String>,
    /// The last event that was heard.
    last: Option<Position>,
    sender: Sender<Result<Heard, TurnError>>,
}

/// How reading a stream ended.
enum End {
    /// With the turn's last event, or because nobody listens any more.
    Over,
    /// Early, for this reason. Whether anything was heard before.
    Cut(String, bool),
    Malformed,
}

impl Reader {
    async fn run(mut self) {
        if let Err(error) = self.read().await {
            // Fails if nobody listens any more.
            let _ = self.sender.send(Err(error)).await;
        }
    }

    async fn read(&mut self) -> Result<(), TurnError> {
        let (mut failures, mut wait, mut is_cut) = (0, Duration::ZERO, false);
        loop {
            let reason = match self.open().await {
                Ok(None) => return Err(TurnError::Gone),
                Ok(Some(body)) => {
                    if std::mem::take(&mut is_cut) {
                        self.send(Heard::Back).await;
                    }
                    match self.listen(body).await {
                        End::Over => return Ok(()),
                        End::Malformed => return Err(TurnError::Malformed),
                        End::Cut(reason, was_heard) => {
                            if was_heard {
                                (failures, wait) = (0, Duration::ZERO);
                            }
                            reason
                        }
                    }
                }
                // Nothing has come of the request yet, so that the user may as well repeat it.
                Err(error) if failures == 0 && self.last.is_none() && !error.may_have_arrived() => {
                    return Err(TurnError::NotBegun(error));
                }
                Err(error) if !error.is_transient() || failures >= REJOIN_ATTEMPTS_MAX => {
                    return Err(TurnError::Lost(error));
                }
                Err(error) => error.to_string(),
            };
            failures += 1;
            if failures > REJOIN_ATTEMPTS_MAX {
                return Err(TurnError::Broken(reason));
            }
            if !std::mem::replace(&mut is_cut, true) {
                self.send(Heard::Cut(reason)).await;
            }
            sleep(wait).await;
            wait = (wait * 2).max(REJOIN_BACKOFF);
        }
    }

    async fn open(&self) -> Result<Option<Body>, ApiError> {
        match &self.turn_id {
            Some(turn_id) => self.gateway.join(&self.session, turn_id, self.last).await,
            None => self.gateway.begin(&self.body, &self.key).await.map(Some),
        }
    }

    async fn listen(&mut self, mut body: Body) -> End {
        let mut decoder = Decoder::new();
        let mut was_heard = false;
        loop {
            let chunk = match timeout(SILENCE_MAX, body.chunk()).await {
                Ok(Some(Ok(chunk))) => chunk,
                // How it broke says nothing to a person.
                Ok(Some(Err(_))) => return End::Cut("the connection broke".to_owned(), was_heard),
                Ok(None) => return End::Cut("the connection was closed".to_owned(), was_heard),
                Err(_) => {
                    let seconds = SILENCE_MAX.as_secs();
                    return End::Cut(format!("nothing was heard for {seconds} s"), was_heard);
                }
            };
            let mut rest = &*chunk;
            loop {
                let frame = match decoder.next_frame(&mut rest) {
                    Ok(Some(frame)) => frame,
                    Ok(None) => break,
                    Err(_) => return End::Malformed,
                };
                let position = frame.id.and_then(Position::parse);
                if position.is_some() && position <= self.last {
                    continue;
                }
                if frame.field == Field::Error {
                    return End::Malformed;
                }
                let Ok(event) = Event::parse(frame.data) else { return End::Malformed };
                self.last = position.or(self.last);
                was_heard = true;
                let Some(event) = event else { continue };
                if let Event::Started(started) = &event {
                    self.turn_id = Some(started.turn_id.clone());
                }
                let is_last = event.is_last();
                if !self.send(Heard::Event(event)).await || is_last {
                    return End::Over;
                }
            }
        }
    }

    /// False if nobody listens any more.
    async fn send(&self, heard: Heard) -> bool {
        self.sender.send(Ok(heard)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    const STARTED: &str = "id: 1-1\ndata: {\"type\":\"turn_started\",\"data\":{\"turn_id\":\"t\",\"model\":\"m\"}}\n\n";
    const ENDED: &str =
        "id: 1-2\ndata: {\"type\":\"turn_completed\",\"data\":{\"finish_reason\":\"stop\"}}\n\n";

    /// Accepts a connection, and reads the head of its request.
    async fn accept(listener: &TcpListener) -> (TcpStream, String) {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            assert_ne!(socket.read_buf(&mut head).await.unwrap(), 0);
        }
        (socket, String::from_utf8(head).unwrap())
    }

    /// A turn at a gateway that gives these answers in order, one to each connection, and then closes it.
    async fn answered(answers: Vec<String>) -> Turn {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let gateway = Gateway::new(base, None).unwrap();
        tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = accept(&listener).await;
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Turn::enter(&gateway, "s", Entry::Begin(serde_json::json!({})))
    }

    /// How many events came before the turn was lost or ended, and why it was lost.
    async fn heard(mut turn: Turn) -> (usize, Option<TurnError>) {
        let mut events = 0;
        loop {
            match turn.next().await {
                Some(Ok(Heard::Event(_))) => events += 1,
                Some(Ok(Heard::Cut(_) | Heard::Back)) => {}
                Some(Err(error)) => return (events, Some(error)),
                None => return (events, None),
            }
        }
    }

    /// The waits double, from half a second after the first attempt.
    #[tokio::test(start_paused = true)]
    async fn a_turn_of_which_nothing_new_is_heard_is_given_up() {
        let attempts = 1 + REJOIN_ATTEMPTS_MAX as usize;
        let begun = Instant::now();
        let turn = answered(vec![[HEAD, STARTED].concat(); attempts]).await;
        let (events, error) = heard(turn).await;
        assert_eq!(events, 1);
        assert_eq!(
            error.unwrap().to_string(),
            "lost the turn: the connection was closed, 7 times in a row"
        );
        let waits = 2_u32.pow(REJOIN_ATTEMPTS_MAX - 1) - 1;
        assert_eq!(begun.elapsed().as_secs(), (REJOIN_BACKOFF * waits).as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_joined_again_for_as_long_as_something_is_heard_of_it() {
        let word = |number: u32| {
            format!(
                "{HEAD}id: 1-{number}\ndata: {{\"type\":\"text_delta\",\"data\":{{\"text\":\"a\"}}}}\n\n"
            )
        };
        let words = REJOIN_ATTEMPTS_MAX * 2;
        let mut answers = vec![[HEAD, STARTED].concat()];
        answers.extend((2..2 + words).map(word));
        answers.push([HEAD, &ENDED.replace("1-2", "1-99")].concat());
        let begun = Instant::now();
        let (events, error) = heard(answered(answers).await).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(events, words as usize + 2);
        assert_eq!(begun.elapsed().as_secs(), 0, "there is no wait after something was heard");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_the_gateway_no_longer_has_is_lost() {
        let refusal = r#"{"error":{"code":"turn_gone","message":"It is over."}}"#;
        for (answer, expected) in [
            (
                "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                "lost the turn: the gateway no longer has it",
            ),
            (
                format!("HTTP/1.1 410 Gone\r\ncontent-length: {}\r\n\r\n{refusal}", refusal.len()),
                "lost the turn: It is over.",
            ),
            (
                format!(
                    "HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n{refusal}",
                    refusal.len()
                ),
                "lost the turn: the gateway no longer has this conversation: it was deleted or has \
                 expired, or the gateway was restarted and kept it only in memory; the next prompt \
                 begins a new conversation",
            ),
        ] {
            let turn = answered(vec![[HEAD, STARTED].concat(), answer]).await;
            let (events, error) = heard(turn).await;
            assert_eq!((events, &*error.unwrap().to_string()), (1, expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_speak_http_is_not_asked_again() {
        let begun = Instant::now();
        let (events, error) =
            heard(answered(vec!["\x15\x03\x01\0\x02\x02\x32".to_owned()]).await).await;
        let error = error.unwrap().to_string();
        assert_eq!(events, 0);
        assert!(error.ends_with("a gateway with TLS begins with https://"), "{error}");
        assert_eq!(begun.elapsed().as_secs(), 0);
    }

    /// A keep-alive counts as a sign of life; a stream without one is left and joined again.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_silent_for_too_long_is_joined_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let gateway = Gateway::new(base, None).unwrap();
        let mut turn = Turn::enter(&gateway, "s", Entry::Begin(serde_json::json!({})));
        let (mut socket, head) = accept(&listener).await;
        assert!(head.starts_with("POST /api/v1/chat/stream "), "{head}");
        socket.write_all([HEAD, STARTED].concat().as_bytes()).await.unwrap();
        assert!(matches!(turn.next().await, Some(Ok(Heard::Event(Event::Started(_))))));
        let almost = SILENCE_MAX.saturating_sub(Duration::from_secs(1));
        assert!(timeout(almost, turn.next()).await.is_err());
        socket.write_all(b": still here\n\n").await.unwrap();
        assert!(timeout(almost, turn.next()).await.is_err());
        let begun = Instant::now();
        let Some(Ok(Heard::Cut(reason))) = turn.next().await else { panic!("it goes on") };
        assert_eq!(reason, "nothing was heard for 60 s");
        assert_eq!(begun.elapsed().as_secs(), 1);
        let (mut socket, head) = accept(&listener).await;
        assert!(head.starts_with("GET /api/v1/chat/stream?session_id=s&turn_id=t "), "{head}");
        assert!(head.to_ascii_lowercase().contains("\r\nlast-event-id: 1-1\r\n"), "{head}");
        socket.write_all([HEAD, ENDED].concat().as_bytes()).await.unwrap();
        assert!(matches!(turn.next().await, Some(Ok(Heard::Back))));
        assert!(matches!(turn.next().await, Some(Ok(Heard::Event(Event::Completed(_))))));
        assert!(turn.next().await.is_none());
    }
}
