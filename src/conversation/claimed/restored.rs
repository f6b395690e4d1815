//! Finds the cached turns that a client's messages stand for.
//!
//! A client sees only part of a turn: neither the calls that the gateway ran nor their results. A
//! cached turn replaces the client's messages if it says all that they say. If there is any doubt,
//! the client's messages stay: its history is the truth, and the cache only fills its gaps.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::reading::{Exchange, Reply, ToldCall};
use super::{FoundCall, TurnLookup, open_question_id};
use crate::conversation::{Call, Conversation, Outcome, Part, Step, Turn, Words};
use crate::limits::session::{COMPARED_BYTES_MAX, PLACES_TRIED_MAX};
use crate::parser::Arguments;
use crate::tools::ToolResult;

/// A cached turn, in place of a client's messages.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) turn: Turn,
    /// How many of the replies it stands for.
    pub(super) replies: usize,
    /// What the client says of its calls.
    pub(super) said: Said,
}

/// What a client says of the calls that it ran, by our ids.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What they returned.
    pub(super) results: HashMap<String, ToolResult>,
    /// Their arguments, where the user has edited them.
    pub(super) edited: HashMap<String, Arguments>,
    /// The user's words beside the results, by the number of the step.
    pub(super) asides: HashMap<usize, Words>,
}

/// Looks for cached turns, one exchange after the other.
pub(super) struct Finder<'h> {
    lookup: &'h dyn TurnLookup,
    /// The name that the client gives to the conversation.
    conversation: Option<&'h str>,
    /// The turns found so far. None is used twice: a list that names one again and again would cost
    /// a copy each time.
    used: HashSet<String>,
    /// Bytes of the turns that were compared in vain: a list can name one that does not fit with
    /// each of its messages.
    in_vain: Cell<usize>,
}

impl<'h> Finder<'h> {
    pub(super) fn new(lookup: &'h dyn TurnLookup, conversation: Option<&'h str>) -> Self {
        Self { lookup, conversation, used: HashSet::new(), in_vain: Cell::new(0) }
    }

    /// The turn for this exchange.
    /// `awaits` says whether the client returns results for the calls of its last message. `before`
    /// are the turns before it, and perhaps a question.
    pub(super) fn find(
        &mut self,
        exchange: &Exchange,
        awaits: bool,
        before: &Conversation,
    ) -> Option<Restored> {
        let restored = self
            .by_prefix(exchange, awaits)
            .or_else(|| self.by_answer(exchange, awaits, before))
            .or_else(|| self.by_call(exchange, awaits))
            .or_else(|| self.by_prompt(exchange, awaits))?;
        self.used.insert(restored.turn.turn_id.clone());
        self.in_vain.set(self.in_vain.get().saturating_sub(restored.turn.bytes()));
        Some(restored)
    }

    /// By all that was said: nothing has been edited since.
    fn by_prefix(&self, exchange: &Exchange, awaits: bool) -> Option<Restored> {
        let (last, before) = exchange.replies.split_last()?;
        let turn = self.lookup.by_prefix(&last.prefix).filter(|turn| self.may_compare(turn))?;
        let mut matcher = CallMatcher::new(self.lookup, &turn);
        for call in before.iter().flat_map(|reply| &reply.calls) {
            // Earlier results are part of the prefix, so the turn has them.
            if call.returned.as_ref().is_some_and(|it| it.at > last.at) {
                matcher.place(call, false)?;
            } else if !matcher.may_have(call) {
                return None;
            }
        }
        matcher.place_all(last, awaits)?;
        let said = matcher.finish(awaits)?;
        Some(Restored { turn: Turn::clone(&turn), replies: exchange.replies.len(), said })
    }

    /// By the question that it answers, if the user has answered so. Another answer opens another
    /// turn, even if that says the same.
    fn by_answer(
        &self,
        exchange: &Exchange,
        awaits: bool,
        before: &Conversation,
    ) -> Option<Restored> {
        let question_id = open_question_id(before)?;
        let turn = self.lookup.by_answer(question_id).filter(|turn| self.may_compare(turn))?;
        let is_given = || {
            let told = before.answer_in(&exchange.prompt.text, |_| true);
            told.zip(turn.answer.as_ref()).is_some_and(|(told, ours)| told.given == ours.given)
        };
        if exchange.prompt.text.trim() != turn.prompt.trim() && !is_given() {
            return None;
        }
        if says(&turn, &exchange.replies[..1]) == 0 {
            return None;
        }
        self.in_place(Turn::clone(&turn), exchange, awaits, 1)
    }

    /// By the ids of calls that the client got from the turn. What the client says after the turn
    /// stays.
    fn by_call(&self, exchange: &Exchange, awaits: bool) -> Option<Restored> {
        let mut replies = exchange.replies.iter().enumerate().rev();
        let (last, turn) = replies
            .find_map(|(at, reply)| Some((at, turn_of(reply, self.lookup)?)))
            .filter(|(_, turn)| self.may_compare(turn))?;
        // The user's words may have been edited.
        let turn = Turn { answer: None, dropped: None, ..Turn::clone(&turn) };
        self.in_place(turn, exchange, awaits, last + 1)
    }

    /// A turn in place of as many replies as it says, but not less than `least`. After those, it
    /// may have said more without a call.
    fn in_place(
        &self,
        turn: Turn,
        exchange: &Exchange,
        awaits: bool,
        least: usize,
    ) -> Option<Restored> {
        let replies = &exchange.replies;
        let rest = &replies[least..];
        let silent = rest.iter().take_while(|reply| {
            reply.calls.is_empty()
                || turn_of(reply, self.lookup).is_some_and(|of| of.turn_id == turn.turn_id)
        });
        let most = least + silent.count();
        let count = says(&turn, &replies[..most]);
        if count < least {
            return None;
        }
        let awaits = awaits && count == replies.len();
        let said = self.place_all(&turn, &replies[..count], awaits)?;
        Some(Restored { turn, replies: count, said })
    }

    /// By the prompt, in a conversation that the client names: it may have changed or cut off what
    /// came before. The newest turn that says all that the client says, and makes all its calls.
    fn by_prompt(&self, exchange: &Exchange, awaits: bool) -> Option<Restored> {
        if exchange.replies.is_empty() {
            return None;
        }
        let turns = self.lookup.by_prompt(self.conversation?, &exchange.prompt.text);
        turns.iter().filter(|turn| self.may_compare(turn)).find_map(|turn| {
            let says_all = says(turn, &exchange.replies) == exchange.replies.len();
            let said = says_all.then(|| self.place_all(turn, &exchange.replies, awaits))??;
            Some(Restored { turn: Turn::clone(turn), replies: exchange.replies.len(), said })
        })
    }

    /// Pairs all calls of these replies with those of a turn.
    fn place_all(&self, turn: &Turn, replies: &[Reply], awaits: bool) -> Option<Said> {
        let mut matcher = CallMatcher::new(self.lookup, turn);
        for (at, reply) in replies.iter().enumerate() {
            matcher.place_all(reply, awaits && at + 1 == replies.len())?;
        }
        matcher.finish(awaits)
    }

    /// Whether this turn may be compared with an exchange. The caller then does, and if it does not
    /// fit, it has taken from the bytes that may be compared in vain.
    fn may_compare(&self, turn: &Turn) -> bool {
        let in_vain = self.in_vain.get();
        if self.used.contains(&turn.turn_id) || in_vain > COMPARED_BYTES_MAX {
            return false;
        }
        self.in_vain.set(in_vain + turn.bytes());
        true
    }
}

/// The turn that a reply's calls are from.
pub(super) fn turn_of(reply: &Reply, lookup: &dyn TurnLookup) -> Option<Arc<Turn>> {
    reply.calls.iter().find_map(|call| Some(lookup.by_call(&call.id)?.turn))
}

/// Pairs the client's calls with those of a turn.
///
/// An id names a call of the turn that handed it out. If the client returned its result, a later
/// turn has gone on from that one: it has the same calls, in the same places. Their own ids may
/// have changed since.
struct CallMatcher<'t> {
    lookup: &'t dyn TurnLookup,
    turn: &'t Turn,
    /// The calls of the turn by their places, each with the number of its step.
    open: HashMap<usize, (&'t Call, usize)>,
    /// The places of calls by their ids, in each of the turns that had them.
    places: HashMap<String, HashMap<String, usize>>,
    said: Said,
    /// Whether the turn waits for one of the results.
    is_awaiting: bool,
}

impl<'t> CallMatcher<'t> {
    fn new(lookup: &'t dyn TurnLookup, turn: &'t Turn) -> Self {
        let steps = turn.steps.iter().enumerate();
        let calls = steps.flat_map(|(at, step)| step.calls().map(move |call| (call, at)));
        let open = calls.enumerate().collect();
        let (places, said) = (HashMap::new(), Said::default());
        Self { lookup, turn, open, places, said, is_awaiting: false }
    }

    /// Whether nothing says that this call is another turn's. A turn that went on from messages of
    /// the client names no other.
    fn may_have(&self, told: &ToldCall) -> bool {
        self.turn.continued.is_empty()
            || self.lookup.by_call(&told.id).is_none_or(|call| self.has(&call.turn))
    }

    /// Whether the turn is this one, or begins this one.
    fn has(&self, turn: &Turn) -> bool {
        self.turn.turn_id == turn.turn_id || self.turn.continued.contains(&turn.turn_id)
    }

    /// Places all calls of a message, with what the user says beside their results.
    fn place_all(&mut self, reply: &Reply, is_awaited: bool) -> Option<()> {
        let mut step = None;
        for call in &reply.calls {
            step = Some(self.place(call, is_awaited)?);
        }
        if let Some(step) = step
            && !reply.aside.text.is_empty()
        {
            self.said.asides.insert(step, reply.aside.clone());
        }
        Some(())
    }

    /// Finds the call, takes what it returned, and returns the number of its step. `is_awaited`
    /// says whether the turn ends with its message and waits for results. `None` if the turn has no
    /// such call.
    fn place(&mut self, told: &ToldCall, is_awaited: bool) -> Option<usize> {
        let FoundCall { turn, call_id } = self.lookup.by_call(&told.id)?;
        if !self.has(&turn) {
            return None;
        }
        let places = self.places.entry(turn.turn_id.clone()).or_insert_with(|| places(&turn));
        let (call, step) = self.open.remove(places.get(&call_id)?)?;
        if call.name != told.name {
            return None;
        }
        match call.outcome {
            Outcome::HandedOut if is_awaited && self.is_last(step) => self.is_awaiting = true,
            Outcome::HandedOut | Outcome::Claimed(_) | Outcome::Skipped(_) if is_awaited => {
                return None;
            }
            Outcome::HandedOut | Outcome::Claimed(_) | Outcome::Skipped(_) => {}
            // The gateway ran it and the client only saw it, so the gateway's result counts.
            _ => return Some(step),
        }
        let ours = [Some(&call.arguments), call.resolved_arguments.as_ref()];
        if !ours.into_iter().flatten().any(|ours| is_same(ours, &told.arguments)) {
            self.said.edited.insert(call.call_id.clone(), told.arguments.clone());
        }
        if let Some(returned) = &told.returned {
            self.said.results.insert(call.call_id.clone(), returned.result.clone());
        }
        Some(step)
    }

    const fn is_last(&self, step: usize) -> bool {
        step + 1 == self.turn.steps.len()
    }

    /// What the client says. `None` if the turn should wait for results but has handed out no such
    /// call.
    fn finish(self, awaits: bool) -> Option<Said> {
        (self.is_awaiting || !awaits).then_some(self.said)
    }
}

/// The places of a turn's calls.
fn places(turn: &Turn) -> HashMap<String, usize> {
    let calls = turn.steps.iter().flat_map(Step::calls).enumerate();
    calls.map(|(at, call)| (call.call_id.clone(), at)).collect()
}

/// Whether both say the same. Clients that read JSON write it in their own way.
fn is_same(ours: &Arguments, told: &Arguments) -> bool {
    let value = |arguments: &Arguments| serde_json::from_str::<Value>(arguments.as_str()).ok();
    ours.as_str() == told.as_str()
        || value(ours).zip(value(told)).is_some_and(|(ours, told)| is_same_value(&ours, &told))
}

fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // In JavaScript all numbers are floats.
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_in_other =
                |(key, a): (&String, &Value)| other.get(key).is_some_and(|b| is_same_value(a, b));
            one.len() == other.len() && one.iter().all(is_in_other)
        }
        (one, other) => one == other,
    }
}

/// How many of the first replies a turn says, in this order.
pub(super) fn says(turn: &Turn, replies: &[Reply]) -> usize {
    let mut said = Visible::default();
    for part in turn.steps.iter().flat_map(|step| &step.parts) {
        match part {
            Part::Text(text) => said.push(text),
            Part::Said(utterance) if utterance.is_told() => said.push(&utterance.text),
            _ => {}
        }
    }
    // Clients that cannot ask show the question as words.
    if let Some(question) = turn.questions.first() {
        said.push(&question.in_words(false));
    }
    let told: Vec<Visible> = replies.iter().map(|reply| Visible::of(&reply.text)).collect();
    let mut end = 0;
    let is_said = |at: &usize| {
        let next = told.get(at + 1).map_or("", |next| &*next.text);
        let found = said.find(&told[*at].text, end, next);
        end = found.unwrap_or(end);
        found.is_some()
    };
    (0..told.len()).take_while(is_said).count()
}

/// A text without its white space. Clients change that, and may split the text anywhere: a tool that ends while the model
/// is writing can cut a word in two.
#[derive(Default)]
struct Visible {
    text: String,
    /// Where its words begin.
    starts: Vec<usize>,
}

impl Visible {
    fn of(text: &str) -> Self {
        let mut visible = Self::default();
        visible.push(text);
        visible
    }

    fn push(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.starts.push(self.text.len());
            self.text.push_str(word);
        }
    }

    /// Whether a word begins here, or ends.
    fn is_between_words(&self, at: usize) -> bool {
        at == self.text.len() || self.starts.binary_search(&at).is_ok()
    }

    /// The end of these words after `from`. They begin there or with a word, and end with a word or where the `next` ones
    /// begin.
    fn find(&self, words: &str, from: usize, next: &str) -> Option<usize> {
        if words.is_empty() {
            return Some(from);
        }
        let mut at = from;
        for _ in 0..PLACES_TRIED_MAX {
            at += self.text[at..].find(words)?;
            let end = at + words.len();
            let goes_on = !next.is_empty() && self.text[end..].starts_with(next);
            if (at == from || self.is_between_words(at)) && (goes_on || self.is_between_words(end))
            {
                return Some(end);
            }
            at += self.text[at..].chars().next().map_or(1, char::len_utf8);
        }
        None
    }
}
