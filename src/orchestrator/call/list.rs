//! The calls of a turn.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Index, IndexMut};

use serde_json::Value;

use super::{CallAt, CallDraft, CallState, Origin, Ready};
use crate::orchestrator::references::{self, Unresolved};
use crate::orchestrator::rejection::Rejection;
use crate::tools::Continuation;

/// All calls of a turn, in the order in which they were written.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct Calls {
    list: Vec<CallDraft>,
    /// How many call ids earlier turns have used.
    ids_before: usize,
    /// How many calls the model had written in full before the turn was interrupted.
    made_before: u32,
}

impl Index<CallAt> for Calls {
    type Output = CallDraft;

    fn index(&self, at: CallAt) -> &CallDraft {
        &self.list[at.place()]
    }
}

impl IndexMut<CallAt> for Calls {
    fn index_mut(&mut self, at: CallAt) -> &mut CallDraft {
        &mut self.list[at.place()]
    }
}

impl Calls {
    /// An empty list, in a session that has already used this many call ids.
    pub(in crate::orchestrator) const fn new(ids_before: usize) -> Self {
        Self { list: Vec::new(), ids_before, made_before: 0 }
    }

    pub(in crate::orchestrator) const fn len(&self) -> usize {
        self.list.len()
    }

    /// The place of the next call.
    pub(in crate::orchestrator) fn end(&self) -> CallAt {
        CallAt::new(self.list.len())
    }

    pub(in crate::orchestrator) fn get(&self, at: CallAt) -> Option<&CallDraft> {
        self.list.get(at.place())
    }

    pub(in crate::orchestrator) fn get_mut(&mut self, at: CallAt) -> Option<&mut CallDraft> {
        self.list.get_mut(at.place())
    }

    /// Adds a call that begins in this round.
    pub(in crate::orchestrator) fn begin(&mut self, round: u32) -> CallAt {
        self.add(round, Origin::Model)
    }

    /// Adds a call that an earlier turn left.
    pub(in crate::orchestrator) fn take_up(&mut self, origin: Origin) -> CallAt {
        self.add(0, origin)
    }

    /// Goes on in a turn that has used this many call ids, those of `taken_up` calls that follow among them, and
    /// in which the model has written `made` calls before these.
    pub(in crate::orchestrator) fn resume(&mut self, ids: usize, taken_up: usize, made: u32) {
        self.ids_before += ids.saturating_sub(taken_up);
        self.made_before = made;
    }

    /// Adds a call of the model, whose turn was interrupted.
    pub(in crate::orchestrator) fn take_back_up(&mut self, call_id: String, round: u32) -> CallAt {
        let at = self.add(round, Origin::Model);
        self[at].call_id = call_id;
        at
    }

    fn add(&mut self, round: u32, origin: Origin) -> CallAt {
        let at = self.end();
        let call_id = format!("call_{}", self.ids_before + self.list.len() + 1);
        let (continuation, state) = (Continuation::default(), CallState::Arriving);
        self.list.push(CallDraft { call_id, round, origin, continuation, state });
        at
    }

    pub(in crate::orchestrator) fn iter(&self) -> impl Iterator<Item = &CallDraft> {
        self.list.iter()
    }

    /// The places from `from` on.
    pub(in crate::orchestrator) fn places(
        &self,
        from: CallAt,
    ) -> impl DoubleEndedIterator<Item = CallAt> + use<> {
        (from.place()..self.list.len()).map(CallAt::new)
    }

    /// The calls from `from` on.
    pub(in crate::orchestrator) fn since(&self, from: CallAt) -> &[CallDraft] {
        &self.list[from.place()..]
    }

    pub(in crate::orchestrator) fn since_mut(&mut self, from: CallAt) -> &mut [CallDraft] {
        &mut self.list[from.place()..]
    }

    /// The calls from `from` up to, but not including, `to`.
    pub(in crate::orchestrator) fn between(&self, from: CallAt, to: CallAt) -> &[CallDraft] {
        &self.list[from.place()..to.place()]
    }

    /// The call with this index in the round whose calls begin at `first`.
    pub(in crate::orchestrator) fn of_round(&self, first: CallAt, index: u32) -> Option<CallAt> {
        let place = first.place() + index as usize;
        (place < self.list.len()).then(|| CallAt::new(place))
    }

    /// A call's position in its message, from 1.
    pub(in crate::orchestrator) fn position(&self, at: CallAt) -> usize {
        let round = self[at].round;
        let before = self.list[..at.place()].iter().rev();
        1 + before.take_while(|before| before.round == round).count()
    }

    /// How many calls the model had written in full before the turn was interrupted.
    pub(in crate::orchestrator) const fn made_before(&self) -> usize {
        self.made_before as usize
    }

    /// How many calls the model has written in full.
    pub(in crate::orchestrator) fn made(&self) -> u32 {
        let whole = self.list.iter().filter(|call| call.whole().is_some()).count();
        u32::try_from(whole).unwrap_or(u32::MAX).saturating_add(self.made_before)
    }

    /// The calls whose results the arguments of the call `at` refer to. They must come before it
    /// in its message, whose calls begin at `first`.
    pub(in crate::orchestrator) fn named(
        &self,
        first: CallAt,
        at: CallAt,
        arguments: &Value,
    ) -> Result<Vec<CallAt>, Rejection> {
        let target = |reference: &str| {
            let named = self.target(first, at, reference);
            named.ok_or_else(|| Rejection::Reference(reference.to_owned()))
        };
        references::find(arguments).into_iter().map(target).collect()
    }

    /// A waiting call's arguments, with references replaced by the results they name.
    pub(in crate::orchestrator) fn resolved(
        &self,
        first: CallAt,
        at: CallAt,
    ) -> Result<Value, Rejection> {
        let Some(Ready { arguments, .. }) = self[at].waiting() else { return Ok(Value::Null) };
        // Each result once, however often it is named.
        let mut results = BTreeMap::new();
        for named in self[at].needs() {
            if let (Entry::Vacant(place), Some(call)) =
                (results.entry(*named), self[*named].ended())
            {
                place.insert(serde_json::to_value(call.result()).unwrap_or_default());
            }
        }
        let result_of = |reference: &str| results.get(&self.target(first, at, reference)?);
        references::resolve(arguments, &result_of).map_err(|unresolved| match unresolved {
            Unresolved::Missing(reference) => Rejection::Reference(reference.to_owned()),
            Unresolved::TooLong => Rejection::ResolvedTooLong,
        })
    }

    fn target(&self, first: CallAt, at: CallAt, reference: &str) -> Option<CallAt> {
        let ids = self.between(first, at).iter().map(|call| call.call_id.as_str());
        let place = references::target(reference, ids)?;
        Some(CallAt::new(first.place() + place))
    }
}
