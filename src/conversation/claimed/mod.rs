//! A conversation as a stateless client tells it.
//!
//! Such a client sends everything that was said with every request, as a list of messages. It may
//! have cut, edited or mixed it up, and it never saw the calls that the gateway ran. [`adopt`]
//! turns the list into a [`Conversation`], in one pass:
//!
//! ```text
//!   messages -- reading --> exchanges: the user's words, the replies, each result with its call
//!            -- restored -> the cached turn that an exchange stands for, if any
//!            -- turns ----> turns: calls numbered, each with its outcome
//! ```
//!
//! No list is refused for its faults. They are repaired and counted: see [`Repair`].
//!
//! **A client's result is never trusted.** It is [`Outcome::Claimed`]: the model reads it, and
//! nothing else follows from it.
//!
//! This module knows no client's API.
//!
//! [`Outcome::Claimed`]: super::Outcome::Claimed

mod answered_questions;
mod content;
mod continued;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod images;
mod markup;
mod newest;
mod pairs;
mod prefix_hash;
mod reading;
mod repairs;
mod restored;
mod turns;

use std::sync::Arc;

use super::{ClientInput, Conversation, Turn, Words};
use images::{Placing, Room};
use reading::{Exchange, Reading};
use restored::{Finder, turn_of};
use turns::Draft;

pub use content::{ClaimedImage, Content, ContentPart};
pub(crate) use continued::adopt_after;
pub use images::ClientImages;
pub use prefix_hash::PrefixHash;
pub use repairs::{Repair, Repairs};

/// A message as a client tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedMessage {
    /// Instructions, of the system or of a developer.
    System(String),
    /// The user's words.
    User(Content),
    /// The user's words beside results, in the same message. They end no turn.
    Aside(Content),
    /// What the assistant said and called.
    Assistant {
        /// Its words.
        text: String,
        /// Its calls, in order.
        calls: Vec<ClaimedCall>,
    },
    /// What a call returned.
    Result {
        /// The call's id.
        call_id: String,
        /// What it returned, usually JSON.
        output: Content,
        /// Whether it failed.
        is_error: bool,
    },
}

impl ClaimedMessage {
    /// Whether it says anything but instructions.
    #[must_use]
    pub fn is_said(&self) -> bool {
        match self {
            Self::System(_) => false,
            Self::User(content) | Self::Aside(content) | Self::Result { output: content, .. } => {
                !content.is_blank()
            }
            Self::Assistant { text, calls } => !calls.is_empty() || !text.trim().is_empty(),
        }
    }
}

/// A call as a client tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedCall {
    /// Its id, which the client may use more than once.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments. They should be a JSON object.
    pub arguments: String,
}

/// Finds cached turns by what a client knows of them. A turn that is not found does no harm: the
/// model then knows only what the client tells.
///
/// Keep the turns of each owner apart.
pub trait TurnLookup {
    /// The call that has this id for the client.
    fn by_call(&self, client_call_id: &str) -> Option<FoundCall>;

    /// The turn at whose end the client had seen exactly this: the messages of its request, then
    /// `assistant` with the text that the client was shown. If the client was also shown calls that
    /// the gateway ran, each of their messages and results counts as the client will send it.
    fn by_prefix(&self, prefix: &PrefixHash) -> Option<Arc<Turn>>;

    /// The turn that ended with this question.
    fn by_question(&self, _clarification_id: &str) -> Option<Arc<Turn>> {
        None
    }

    /// The turn that an answer to this question opened, once it has ended.
    fn by_answer(&self, _clarification_id: &str) -> Option<Arc<Turn>> {
        None
    }

    /// Whether this question has been answered or dropped, or is being answered.
    fn is_closed(&self, clarification_id: &str) -> bool {
        self.by_answer(clarification_id).is_some()
    }

    /// The turns that began with this prompt, in the conversation to which the client gives this
    /// name: the newest first, and few.
    fn by_prompt(&self, _conversation: &str, _prompt: &str) -> Vec<Arc<Turn>> {
        Vec::new()
    }
}

/// Finds no turn.
#[derive(Debug)]
pub(crate) struct NoTurns;

impl TurnLookup for NoTurns {
    fn by_call(&self, _client_call_id: &str) -> Option<FoundCall> {
        None
    }

    fn by_prefix(&self, _prefix: &PrefixHash) -> Option<Arc<Turn>> {
        None
    }
}

/// A call that a client knows: one that it runs, or a server tool's that it was shown.
#[derive(Debug, Clone)]
pub struct FoundCall {
    /// The turn with this call, as it was when it ended.
    pub turn: Arc<Turn>,
    /// The call's id in that turn.
    pub call_id: String,
}

/// A list of messages as a conversation.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// The client's instructions.
    pub system: Option<String>,
    /// The turns before the one that opens.
    pub history: Conversation,
    /// What opens the next turn. The history accepts it: [`Conversation::open`] succeeds.
    pub input: ClientInput,
    /// The hash of everything that the client says was said.
    pub prefix: PrefixHash,
    /// The images that the client sends with it.
    pub images: ClientImages,
    /// What was wrong with the list.
    pub repairs: Repairs,
    /// The turn at the list's end, if the client returns results for it although it does not wait for any.
    retold: Option<String>,
}

/// Who sends a conversation, and where its turns are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Claimant<'a> {
    /// See [`PrefixHash::begin`].
    pub(crate) owner: &'a str,
    pub(crate) lookup: &'a dyn TurnLookup,
    /// The client's name for the conversation, if it has one.
    pub(crate) conversation: Option<&'a str>,
}

/// The list is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no message to answer")]
pub struct NothingToAnswer;

/// Makes a conversation of a client's messages. `owner` is whoever sends them; see [`PrefixHash::begin`].
///
/// # Errors
/// If there are none.
pub fn adopt(
    messages: Vec<ClaimedMessage>,
    owner: &str,
    lookup: &dyn TurnLookup,
) -> Result<Adopted, NothingToAnswer> {
    adopt_named(messages, owner, lookup, None)
}

/// The same for a conversation to which the client gives this name, if it does.
///
/// # Errors
/// If there are none.
pub fn adopt_named(
    mut messages: Vec<ClaimedMessage>,
    owner: &str,
    lookup: &dyn TurnLookup,
    conversation: Option<&str>,
) -> Result<Adopted, NothingToAnswer> {
    Room::new().limit(&mut messages);
    let placing = Placing::new("");
    adopt_onto(Conversation::default(), messages, Claimant { owner, lookup, conversation }, placing)
}

/// The same, appended to this history.
fn adopt_onto(
    mut history: Conversation,
    mut messages: Vec<ClaimedMessage>,
    Claimant { owner, lookup, conversation }: Claimant<'_>,
    mut placing: Placing<'_>,
) -> Result<Adopted, NothingToAnswer> {
    if messages.is_empty() {
        return Err(NothingToAnswer);
    }
    let is_too_long = newest::keep(&mut messages);
    let Reading { system, mut exchanges, notes, prefix, mut repairs } =
        reading::read(messages, owner, &mut placing);
    if is_too_long {
        repairs.count(Repair::TooLong);
    }
    exchanges = answered_questions::split(exchanges, lookup);
    let next = next(&mut exchanges, notes, &mut repairs);
    let mut finder = Finder::new(lookup, conversation);
    for exchange in exchanges {
        let restored = finder.find(&exchange, false, &history);
        let draft = Draft::new(exchange, restored, history.call_ids());
        append(&mut history, draft.finish(&mut repairs));
    }
    let mut images = ClientImages { opening: Vec::new(), files: placing.finish() };
    let mut retold = None;
    let input = match next {
        Next::Words(words) => {
            images.opening = words.images;
            ClientInput::Words(words.text)
        }
        Next::Prompt(prompt) => ClientInput::Prompt(prompt),
        Next::Results(exchange) => {
            let restored = finder.find(&exchange, true, &history);
            if restored.is_none() {
                retold = only_turn_of(&exchange, lookup);
            }
            let draft = Draft::new(exchange, restored, history.call_ids());
            let (turn, results) = draft.hand_out(&mut repairs);
            append(&mut history, turn);
            ClientInput::Results(results)
        }
    };
    Ok(Adopted { system, history, input, prefix, images, repairs, retold })
}

/// The id of the turn that made the calls of all these replies.
fn only_turn_of(exchange: &Exchange, lookup: &dyn TurnLookup) -> Option<String> {
    let with_calls = exchange.replies.iter().filter(|reply| !reply.calls.is_empty());
    let mut turns = with_calls.map(|reply| Some(turn_of(reply, lookup)?.turn_id.clone()));
    let first = turns.next()??;
    turns.all(|turn| turn.as_ref() == Some(&first)).then_some(first)
}

/// What the list ends with.
enum Next {
    /// The user's words.
    Words(Words),
    /// Words that the user has not said: they answer no question.
    Prompt(String),
    /// Results of the last message's calls.
    Results(Exchange),
}

/// What the user says to a model that spoke last. Programs append the answer to that message.
const CONTINUE: &str = "Go on exactly where you stopped. Do not repeat anything.";

/// The prompt of a list that says nothing but instructions. Some programs put all they want into
/// those, and others send a blank prompt to see whether a model is there.
const NO_WORDS: &str = "(The user has sent no words.)";

/// Takes what opens the next turn. `notes` are words of the user that nothing followed.
fn next(exchanges: &mut Vec<Exchange>, mut notes: Vec<String>, repairs: &mut Repairs) -> Next {
    let Some(mut last) = exchanges.pop() else {
        if notes.is_empty() {
            repairs.count(Repair::NoWords);
            notes.push(NO_WORDS.to_owned());
        }
        return Next::Prompt(notes.join("\n\n"));
    };
    if last.is_answered() {
        exchanges.push(last);
        notes.push(CONTINUE.to_owned());
        return Next::Prompt(notes.join("\n\n"));
    }
    for note in notes {
        last.prompt.add(note.into());
    }
    if last.replies.is_empty() { Next::Words(last.prompt) } else { Next::Results(last) }
}

/// The id of the open question.
fn open_question_id(history: &Conversation) -> Option<&str> {
    history.open_questions().first().map(|question| &*question.clarification_id)
}

/// Appends a turn. It answers a question only if that is open.
fn append(history: &mut Conversation, mut turn: Turn) {
    let open_id = open_question_id(history);
    if turn.answer.as_ref().is_some_and(|answer| Some(&*answer.clarification_id) != open_id) {
        turn.answer = None;
    }
    history.push(turn);
}

#[cfg(test)]
mod tests;
