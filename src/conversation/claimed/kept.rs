//! Finds the turns of our own that a client's messages stand for.
//!
//! A client sees only part of a turn: neither the calls that the gateway ran nor their results. The
//! turn that we kept takes the place of its messages if it says all that they say. If there is any
//! doubt, the client's messages stay: its history is the truth, and ours only fills its gaps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::reading::{Exchange, Reply, ToldCall};
use super::{HiddenCall, HiddenTurns};
use crate::conversation::{Call, Outcome, Part, Turn};
use crate::tools::ToolResult;

/// A turn of our own, in place of a client's messages.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) turn: Turn,
    /// How many of the replies it stands for.
    pub(super) replies: usize,
    /// What the client says that calls returned, by our ids.
    pub(super) results: HashMap<String, ToolResult>,
}

/// Looks for our turns, one exchange after the other.
pub(super) struct Finder<'h> {
    hidden: &'h dyn HiddenTurns,
    /// The turns found so far. None is used twice: a list that names one again and again would cost
    /// a copy each time.
    used: HashSet<String>,
}

impl<'h> Finder<'h> {
    pub(super) fn new(hidden: &'h dyn HiddenTurns) -> Self {
        Self { hidden, used: HashSet::new() }
    }

    /// The turn for this exchange.
    /// `awaits` says whether the client returns results for the calls of its last message, and
    /// `asked` which question is open before it.
    pub(super) fn find(
        &mut self,
        exchange: &Exchange,
        awaits: bool,
        asked: Option<&str>,
    ) -> Option<Kept> {
        self.by_past(exchange, awaits)
            .or_else(|| self.by_answer(exchange, awaits, asked?))
            .or_else(|| self.by_call(exchange, awaits))
    }

    /// By all that was said: nothing has been edited since.
    fn by_past(&mut self, exchange: &Exchange, awaits: bool) -> Option<Kept> {
        let (last, before) = exchange.replies.split_last()?;
        let turn = self.hidden.by_past(&last.past)?;
        self.take(&turn)?;
        let mut placing = Placing::new(self.hidden, &turn);
        // Earlier results are part of the past, so the turn has them.
        let is_news = |call: &&ToldCall| call.returned.as_ref().is_some_and(|it| it.at > last.at);
        for call in before.iter().flat_map(|reply| &reply.calls).filter(is_news) {
            placing.place(call, false)?;
        }
        for call in &last.calls {
            placing.place(call, awaits)?;
        }
        let results = placing.finish(awaits)?;
        Some(Kept { turn: Turn::clone(&turn), replies: exchange.replies.len(), results })
    }

    /// By the question that it answers. The user's words may have been edited, but they opened this
    /// turn.
    fn by_answer(&mut self, exchange: &Exchange, awaits: bool, asked: &str) -> Option<Kept> {
        let turn = self.hidden.by_answer(asked)?;
        if says(&turn, &exchange.replies[..1]) == 0 {
            return None;
        }
        self.take(&turn)?;
        self.in_place(Turn::clone(&turn), exchange, awaits, 1)
    }

    /// By the ids of calls that the client got from the turn. What the client says after the turn
    /// stays.
    fn by_call(&mut self, exchange: &Exchange, awaits: bool) -> Option<Kept> {
        let mut replies = exchange.replies.iter().enumerate().rev();
        let (last, turn) =
            replies.find_map(|(at, reply)| Some((at, turn_of(reply, self.hidden)?)))?;
        self.take(&turn)?;
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
    ) -> Option<Kept> {
        let replies = &exchange.replies;
        let rest = &replies[least..];
        let silent = rest.iter().take_while(|reply| {
            reply.calls.is_empty()
                || turn_of(reply, self.hidden).is_some_and(|of| of.turn_id == turn.turn_id)
        });
        let most = least + silent.count();
        let said = says(&turn, &replies[..most]);
        if said < least {
            return None;
        }
        let awaits = awaits && said == replies.len();
        let mut placing = Placing::new(self.hidden, &turn);
        for (at, reply) in replies[..said].iter().enumerate() {
            for call in &reply.calls {
                placing.place(call, awaits && at + 1 == said)?;
            }
        }
        let results = placing.finish(awaits)?;
        Some(Kept { turn, replies: said, results })
    }

    fn take(&mut self, turn: &Arc<Turn>) -> Option<()> {
        self.used.insert(turn.turn_id.clone()).then_some(())
    }
}

/// The turn that a reply's calls are from.
pub(super) fn turn_of(reply: &Reply, hidden: &dyn HiddenTurns) -> Option<Arc<Turn>> {
    reply.calls.iter().find_map(|call| Some(hidden.by_call(&call.id)?.turn))
}

/// Pairs the client's calls with those of a turn.
struct Placing<'t> {
    hidden: &'t dyn HiddenTurns,
    /// The calls of the turn by our ids, each with whether the turn ends with its step.
    open: HashMap<&'t str, (&'t Call, bool)>,
    results: HashMap<String, ToolResult>,
    /// Whether the turn waits for one of these results.
    is_awaiting: bool,
}

impl<'t> Placing<'t> {
    fn new(hidden: &'t dyn HiddenTurns, turn: &'t Turn) -> Self {
        let mut open = HashMap::new();
        for (at, step) in turn.steps.iter().enumerate() {
            let is_last = at + 1 == turn.steps.len();
            open.extend(step.calls().map(|call| (&*call.call_id, (call, is_last))));
        }
        Self { hidden, open, results: HashMap::new(), is_awaiting: false }
    }

    /// Finds the call, and takes what it returned. `is_awaited` says whether the turn ends with its
    /// message and waits for results. `None` if the turn has no such call.
    fn place(&mut self, told: &ToldCall, is_awaited: bool) -> Option<()> {
        let HiddenCall { call_id, .. } = self.hidden.by_call(&told.id)?;
        let (call, is_last) = self.open.remove(&*call_id)?;
        if call.name != told.name {
            return None;
        }
        match call.outcome {
            Outcome::HandedOut if is_awaited && is_last => self.is_awaiting = true,
            Outcome::HandedOut | Outcome::Claimed(_) | Outcome::Skipped(_) if is_awaited => {
                return None;
            }
            Outcome::HandedOut | Outcome::Claimed(_) | Outcome::Skipped(_) => {}
            // The gateway ran it, and the client only saw it. Its word replaces no result of ours.
            _ => return Some(()),
        }
        if let Some(returned) = &told.returned {
            self.results.insert(call_id, returned.result.clone());
        }
        Some(())
    }

    /// The results. `None` if the turn should wait for some but has handed out no such call.
    fn finish(self, awaits: bool) -> Option<HashMap<String, ToolResult>> {
        (self.is_awaiting || !awaits).then_some(self.results)
    }
}

/// How many of the first replies a turn says, in this order.
pub(super) fn says(turn: &Turn, replies: &[Reply]) -> usize {
    let mut said = String::new();
    for part in turn.steps.iter().flat_map(|step| &step.parts) {
        if let Part::Text(text) = part {
            push_words(&mut said, text);
        }
    }
    // Clients that cannot ask show the question as words.
    if let Some(question) = turn.questions.first() {
        push_words(&mut said, &question.clarification.in_words(false));
    }
    let mut rest = &*said;
    let is_said = |reply: &&Reply| {
        let mut words = String::new();
        push_words(&mut words, &reply.text);
        let found = rest.find(&words);
        rest = found.map_or("", |at| &rest[at + words.len()..]);
        found.is_some()
    };
    replies.iter().take_while(is_said).count()
}

/// Adds the words of a text: clients change the white space between them.
fn push_words(words: &mut String, text: &str) {
    for word in text.split_whitespace() {
        words.push_str(word);
        words.push(' ');
    }
}
