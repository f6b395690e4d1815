//! Reads the list: instructions apart, each user's message with what followed it, each result with
//! its call.

use serde_json::{Value, json};

use super::pairs::{Pairing, Pairs, Place};
use super::prefix_hash::PrefixHash;
use super::repairs::{Repair, Repairs};
use super::{ClaimedCall, ClaimedMessage, Content, Placing, Words, markup};
use crate::call_format::CallFormat;
use crate::conversation::render::inert;
use crate::limits::tools::OUTPUT_BYTES_MAX;
use crate::parser::Arguments;
use crate::tools::ToolResult;

/// A list that has been read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) system: Option<String>,
    pub(super) exchanges: Vec<Exchange>,
    /// Words of the user that no exchange has, because nothing followed them.
    pub(super) notes: Vec<String>,
    pub(super) prefix: PrefixHash,
    pub(super) repairs: Repairs,
}

/// What the user said, and what followed.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) prompt: Words,
    pub(super) replies: Vec<Reply>,
}

/// An assistant's message.
#[derive(Debug)]
pub(super) struct Reply {
    /// Its position in the list.
    pub(super) at: usize,
    /// The hash of everything up to it.
    pub(super) prefix: PrefixHash,
    pub(super) text: String,
    pub(super) calls: Vec<ToldCall>,
    /// Whether one of them has a result.
    pub(super) has_results: bool,
    /// The user's words beside the results.
    pub(super) aside: Words,
}

/// A call as the client tells it.
#[derive(Debug)]
pub(super) struct ToldCall {
    /// The id that the client gives it.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Arguments,
    pub(super) returned: Option<Returned>,
}

/// What a call returned.
#[derive(Debug)]
pub(super) struct Returned {
    /// The position of the result in the list.
    pub(super) at: usize,
    pub(super) result: ToolResult,
}

/// The prompt of an assistant that speaks first: one that greets, or one whose prompt the client
/// has cut off. Servers insist on a prompt, and this one asks for nothing.
const NO_PROMPT: &str = "(The assistant speaks first.)";

/// Reads a list of messages.
pub(super) fn read(
    messages: Vec<ClaimedMessage>,
    owner: &str,
    placing: &mut Placing<'_>,
) -> Reading {
    let mut reader = Reader {
        placing,
        system: Vec::new(),
        exchanges: Vec::new(),
        notes: Vec::new(),
        pairs: Pairs::default(),
        prefix: PrefixHash::begin(owner),
        repairs: Repairs::default(),
    };
    for (at, message) in messages.into_iter().enumerate() {
        match message {
            ClaimedMessage::System(text) => reader.read_system(text),
            ClaimedMessage::User(content) => reader.read_user(content),
            ClaimedMessage::Aside(content) => reader.read_aside(content),
            ClaimedMessage::Assistant { text, calls } => reader.read_assistant(at, &text, calls),
            ClaimedMessage::Result { call_id, output, is_error } => {
                reader.read_result(at, &call_id, output, is_error);
            }
        }
    }
    let Reader { system, exchanges, notes, prefix, repairs, .. } = reader;
    let system = (!system.is_empty()).then(|| system.join("\n\n"));
    Reading { system, exchanges, notes, prefix, repairs }
}

struct Reader<'r, 's> {
    placing: &'r mut Placing<'s>,
    system: Vec<String>,
    exchanges: Vec<Exchange>,
    /// Words of results without a call, until the user speaks.
    notes: Vec<String>,
    pairs: Pairs,
    prefix: PrefixHash,
    repairs: Repairs,
}

impl Reader<'_, '_> {
    fn read_system(&mut self, text: String) {
        if self.is_blank(&text) {
            return;
        }
        self.prefix = self.prefix.then("system", &text);
        if !self.exchanges.is_empty() {
            self.repairs.count(Repair::LateSystem);
        }
        self.system.push(text);
    }

    fn read_user(&mut self, content: Content) {
        if content.is_blank() {
            return self.repairs.count(Repair::EmptyMessage);
        }
        self.prefix = self.prefix.then_content("user", &content);
        let notes = std::mem::take(&mut self.notes);
        let open = self.exchanges.last_mut().filter(|last| last.replies.is_empty());
        let before = open.as_ref().map_or(0, |last| last.prompt.images.len());
        let mut said = Words::default();
        for note in notes {
            said.add(note.into());
        }
        said.add(self.placing.place(content, before));
        match open {
            Some(last) => {
                self.repairs.count(Repair::SplitPrompt);
                last.prompt.add(said);
            }
            None => self.exchanges.push(Exchange { prompt: said, replies: Vec::new() }),
        }
    }

    /// Words beside results that nobody has asked for are a message of their own.
    fn read_aside(&mut self, content: Content) {
        let last = self.exchanges.last_mut().and_then(|last| last.replies.last_mut());
        let Some(reply) = last.filter(|reply| reply.has_results) else {
            return self.read_user(content);
        };
        if content.is_blank() {
            return;
        }
        self.prefix = self.prefix.then_content("user", &content);
        let before = reply.aside.images.len();
        reply.aside.add(self.placing.place(content, before));
    }

    fn read_assistant(&mut self, at: usize, text: &str, calls: Vec<ClaimedCall>) {
        let shown = markup::without_calls(text);
        if shown.len() < text.len() {
            self.repairs.count(Repair::CallMarkup);
        }
        if calls.is_empty() && self.is_blank(&shown) {
            return;
        }
        self.prefix = self.prefix.then("assistant", text);
        if self.exchanges.is_empty() {
            self.begin_without_prompt();
        }
        let calls = self.read_calls(calls);
        let exchange = self.exchanges.len() - 1;
        let replies = &mut self.exchanges[exchange].replies;
        let reply = replies.len();
        let places = calls.iter().enumerate();
        let places = places.map(|(call, told)| (&*told.id, Place { exchange, reply, call }));
        let reused = self.pairs.add(places);
        (0..reused).for_each(|_| self.repairs.count(Repair::ReusedId));
        let (prefix, text, aside) = (self.prefix, shown.into_owned(), Words::default());
        replies.push(Reply { at, prefix, text, calls, has_results: false, aside });
    }

    fn begin_without_prompt(&mut self) {
        self.repairs.count(Repair::NoPrompt);
        let prompt = match &*self.notes {
            [] => NO_PROMPT.to_owned(),
            notes => notes.join("\n\n"),
        };
        self.notes.clear();
        self.exchanges.push(Exchange { prompt: prompt.into(), replies: Vec::new() });
    }

    fn read_calls(&mut self, calls: Vec<ClaimedCall>) -> Vec<ToldCall> {
        let read = |ClaimedCall { id, name, arguments }| {
            let arguments = self.read_arguments(&arguments);
            ToldCall { id, name, arguments, returned: None }
        };
        calls.into_iter().map(read).collect()
    }

    /// Many clients write no arguments as an empty text.
    fn read_arguments(&mut self, written: &str) -> Arguments {
        let written = if written.trim().is_empty() { "{}" } else { written };
        Arguments::parse(written).unwrap_or_else(|_| {
            self.repairs.count(Repair::BrokenArguments);
            Arguments::parse(&json!({ "...": written }).to_string()).expect("it is an object")
        })
    }

    fn read_result(&mut self, at: usize, call_id: &str, output: Content, is_error: bool) {
        self.prefix = self.prefix.then_content("tool", &output);
        match self.pairs.pair(call_id) {
            Pairing::Call(place) => {
                if !self.is_latest(place) {
                    self.repairs.count(Repair::LateResult);
                }
                let exchange = &mut self.exchanges[place.exchange];
                let reply = &mut exchange.replies[place.reply];
                reply.has_results = true;
                let result = result(output, is_error, self.placing);
                reply.calls[place.call].returned = Some(Returned { at, result });
            }
            Pairing::Duplicate => self.repairs.count(Repair::DuplicateResult),
            Pairing::Stray => {
                self.repairs.count(Repair::StrayResult);
                self.notes.extend(stray(&output.text));
            }
        }
    }

    /// Whether nothing but results has come after this call.
    fn is_latest(&self, place: Place) -> bool {
        let replies = &self.exchanges[place.exchange].replies;
        place.exchange + 1 == self.exchanges.len() && place.reply + 1 == replies.len()
    }

    fn is_blank(&mut self, text: &str) -> bool {
        let is_blank = text.trim().is_empty();
        if is_blank {
            self.repairs.count(Repair::EmptyMessage);
        }
        is_blank
    }
}

impl Exchange {
    /// Whether the assistant spoke last: nothing follows its message, not even a result of its
    /// calls.
    pub(super) fn is_answered(&self) -> bool {
        self.replies.last().is_some_and(|last| !last.has_results)
    }
}

/// A client's result. Its data is plain, even if it has the fields of our results: a client asks no
/// questions and gives no instructions.
pub(super) fn result(output: Content, is_error: bool, placing: &mut Placing<'_>) -> ToolResult {
    let Content { text: output, images } = output;
    let result = if is_error {
        let is_blank = output.trim().is_empty();
        ToolResult::error(if is_blank { NO_REASON.to_owned() } else { output })
    } else {
        match serde_json::from_str(&output) {
            Ok(data @ (Value::Object(_) | Value::Array(_))) => ToolResult::data(data),
            _ if output.trim().is_empty() && !images.is_empty() => ToolResult::data(json!({})),
            _ => ToolResult::data(json!({ "text": output })),
        }
    };
    let mut result = result.checked().capped(OUTPUT_BYTES_MAX);
    result.list_files(images.into_iter().map(|(_, image)| placing.add(image)).collect());
    result
}

const NO_REASON: &str = "it failed without a reason";

/// The words of a result without a call. They come from anyone, so like those of other results they
/// are no calls and begin no messages.
fn stray(output: &str) -> Option<String> {
    let words = inert::text(output.trim(), &CallFormat::default()).into_owned();
    let told = || format!("A result of a call that is not part of this conversation: {words}");
    (!words.is_empty()).then(told)
}
