//! Makes a turn of an exchange: its calls numbered after those before it, each with its outcome.

use std::collections::HashMap;
use std::sync::Arc;

use super::reading::{Exchange, Reply, ToldCall};
use super::repairs::{Repair, Repairs};
use super::restored::{Restored, Said};
use crate::conversation::reference;
use crate::conversation::{Call, ClientResult, Ending, Outcome, Part, Step, Turn, Words};
use crate::event::TurnFinish;
use crate::parser::Arguments;
use crate::tools::ToolResult;

/// Why a call has no result.
const WENT_ON: &str = "the conversation went on";

/// The result of a call whose siblings have theirs.
pub(super) const NOT_RETURNED: &str = "not run: the client returned no result";

/// A turn that is being made.
pub(super) struct Draft {
    turn: Turn,
    /// How many call ids are used before it.
    ids_before: usize,
    /// What the client says that calls returned.
    results: HashMap<String, ToolResult>,
    /// Whether it ends as the cached turn did.
    is_whole: bool,
}

impl Draft {
    /// Begins with the cached turn for this exchange, if any, and adds the replies that are not in
    /// it.
    pub(super) fn new(exchange: Exchange, restored: Option<Restored>, ids_before: usize) -> Self {
        let Exchange { prompt, replies } = exchange;
        let (turn, known, said) = match restored {
            Some(Restored { turn, replies, said }) => (turn, replies, said),
            None => (Turn::default(), 0, Said::default()),
        };
        let Said { results, edited, asides } = said;
        let is_whole = known == replies.len();
        // It must not replace the turn before it.
        let mut turn =
            Turn { prompt: prompt.text, images: prompt.images, continues: false, ..turn };
        for (step, aside) in asides {
            let step = &mut turn.steps[step];
            (step.aside, step.aside_images) = (aside.text, aside.images);
        }
        let mut draft = Self { turn, ids_before, results, is_whole };
        draft.edit(edited);
        draft.renumber();
        for reply in replies.into_iter().skip(known) {
            draft.add(reply);
        }
        draft
    }

    /// Puts the user's arguments in place of the model's.
    fn edit(&mut self, mut edited: HashMap<String, Arguments>) {
        if edited.is_empty() {
            return;
        }
        for call in calls(&mut self.turn.steps) {
            if let Some(arguments) = edited.remove(&call.call_id) {
                let call = Arc::make_mut(call);
                (call.arguments, call.resolved_arguments) = (arguments, None);
            }
        }
    }

    /// A cached turn as it ended.
    pub(super) fn again(turn: &Turn, ids_before: usize) -> Self {
        let turn = Turn { continues: false, ..turn.clone() };
        let mut draft = Self { turn, ids_before, results: HashMap::new(), is_whole: true };
        draft.renumber();
        draft
    }

    /// Gives the calls ids that follow those before them. Ids that already do are kept, gaps
    /// included: what the model is told about them then stays right, and so does the server's
    /// cached prompt.
    fn renumber(&mut self) {
        if self.is_in_order() {
            return;
        }
        let (mut ids, mut results) = (HashMap::new(), HashMap::new());
        self.turn.call_ids = 0;
        for call in calls(&mut self.turn.steps) {
            self.turn.call_ids += 1;
            let id = format!("call_{}", self.ids_before + self.turn.call_ids);
            let call = Arc::make_mut(call);
            if call.resolved_arguments.is_some() {
                call.arguments = with_ids(&call.arguments, &ids);
            }
            results.extend(self.results.remove(&call.call_id).map(|it| (id.clone(), it)));
            ids.insert(std::mem::replace(&mut call.call_id, id.clone()), id);
        }
        for question in &mut self.turn.questions {
            if let Some(id) = ids.get(&question.call_id) {
                question.call_id.clone_from(id);
            }
        }
        self.results = results;
    }

    fn is_in_order(&self) -> bool {
        let mut last = self.ids_before;
        let most = last + self.turn.call_ids;
        self.turn.steps.iter().flat_map(Step::calls).all(|call| {
            let number = call.call_id.strip_prefix("call_").and_then(|it| it.parse().ok());
            let before = std::mem::replace(&mut last, number.unwrap_or_default());
            before < last && last <= most
        })
    }

    fn add(&mut self, reply: Reply) {
        let text = (!reply.text.trim().is_empty()).then_some(Part::Text(reply.text));
        let calls = reply.calls.into_iter().map(|call| Part::Call(Arc::new(self.number(call))));
        let parts = text.into_iter().chain(calls).collect();
        let Words { text: aside, images: aside_images } = reply.aside;
        self.turn.steps.push(Step { parts, aside, aside_images, ..Step::default() });
    }

    fn number(&mut self, told: ToldCall) -> Call {
        let ToldCall { id: _, name, arguments, returned } = told;
        self.turn.call_ids += 1;
        let call_id = format!("call_{}", self.ids_before + self.turn.call_ids);
        if let Some(returned) = returned {
            self.results.insert(call_id.clone(), returned.result);
        }
        let outcome = Outcome::HandedOut;
        Call { call_id, name, arguments, resolved_arguments: None, outcome }
    }

    /// The finished turn.
    pub(super) fn finish(mut self, repairs: &mut Repairs) -> Turn {
        for call in calls(&mut self.turn.steps) {
            settle(call, &mut self.results, repairs);
        }
        self.end(TurnFinish::Stop);
        self.turn
    }

    /// The turn while it waits for the calls of its last step, and their results.
    pub(super) fn hand_out(mut self, repairs: &mut Repairs) -> (Turn, Vec<ClientResult>) {
        let mut results = Vec::new();
        if let Some((last, before)) = self.turn.steps.split_last_mut() {
            for call in calls(before) {
                settle(call, &mut self.results, repairs);
            }
            for call in last.calls().filter(|call| call.outcome == Outcome::HandedOut) {
                let result = self.results.remove(&call.call_id).unwrap_or_else(|| {
                    repairs.count(Repair::MissingResult);
                    ToolResult::error(NOT_RETURNED)
                });
                results.push(ClientResult { call_id: call.call_id.clone(), result });
            }
        }
        self.is_whole = false;
        self.end(TurnFinish::ClientToolCalls);
        (self.turn, results)
    }

    /// Ends the turn, unless it has ended and nothing was added to it since.
    fn end(&mut self, finish: TurnFinish) {
        const HANDED_OUT: Option<Ending> = Some(Ending::Completed(TurnFinish::ClientToolCalls));
        if self.is_whole && !matches!(self.turn.ending, None | HANDED_OUT) {
            return;
        }
        let goes_on = self.turn.steps.last().is_some_and(Step::asks_for_more);
        let has_end = !goes_on || finish == TurnFinish::ClientToolCalls;
        self.turn.ending = has_end.then_some(Ending::Completed(finish));
        // Nobody answers them any more.
        self.turn.questions.clear();
        self.turn.deferred.clear();
    }
}

fn calls(steps: &mut [Step]) -> impl Iterator<Item = &mut Arc<Call>> {
    steps.iter_mut().flat_map(|step| &mut step.parts).filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    })
}

/// Gives a call of the client its outcome.
fn settle(call: &mut Arc<Call>, results: &mut HashMap<String, ToolResult>, repairs: &mut Repairs) {
    let outcome = match results.remove(&call.call_id) {
        Some(result) => Outcome::Claimed(result),
        None if call.outcome == Outcome::HandedOut => {
            repairs.count(Repair::MissingResult);
            Outcome::Skipped(WENT_ON.to_owned())
        }
        None => return,
    };
    Arc::make_mut(call).outcome = outcome;
}

/// The arguments, with references that name calls by their new ids.
fn with_ids(arguments: &Arguments, ids: &HashMap<String, String>) -> Arguments {
    let mut value = arguments.to_value();
    reference::rename(&mut value, ids);
    Arguments::parse(&value.to_string()).expect("an object that was read can be read again")
}
