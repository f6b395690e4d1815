//! Answers in clients' own forms, beside the turns that they belong to.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::conversation::{Conversation, Turn};
use crate::limits::session as limits;

/// The answers of a session, the oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AnswerRecords(VecDeque<AnswerRecord>);

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AnswerRecord {
    /// Its turn.
    turn_id: String,
    /// What was known when the turn began.
    pub(crate) begun: Arc<RawValue>,
    /// The answer, once the turn is over.
    pub(crate) answer: Option<Arc<RawValue>>,
    /// Its turn, if a later one has taken its place in the conversation.
    pub(crate) replaced: Option<Replaced>,
}

/// A turn that handed out calls, as it was before their results came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Replaced {
    /// How many turns of the session came before it.
    pub(crate) before: u64,
    pub(crate) turn: Arc<Turn>,
}

impl AnswerRecords {
    /// The answer of a turn.
    pub(crate) fn find(&self, turn_id: &str) -> Option<&AnswerRecord> {
        self.0.iter().find(|kept| kept.turn_id == turn_id)
    }

    /// The turns whose answers they are.
    pub(crate) fn turn_ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|kept| &*kept.turn_id)
    }

    /// Notes that a turn begins whose answer is kept.
    pub(crate) fn begin(&mut self, turn_id: &str, begun: Arc<RawValue>) {
        let turn_id = turn_id.to_owned();
        self.0.push_back(AnswerRecord { turn_id, begun, answer: None, replaced: None });
        self.make_room();
    }

    /// Keeps the answer of a turn that was begun here.
    pub(crate) fn end(&mut self, turn_id: &str, answer: Option<Arc<RawValue>>) {
        if let Some(kept) = self.0.iter_mut().find(|kept| kept.turn_id == turn_id) {
            kept.answer = answer;
            self.make_room();
        }
    }

    /// Keeps the latest turn of a conversation, which is about to be replaced, if its answer is
    /// kept: a client may continue from there again.
    pub(crate) fn keep_replaced(&mut self, conversation: &Conversation) {
        let Some(turn) = conversation.turns().next_back() else { return };
        let before = conversation.dropped() + conversation.turns().len() as u64 - 1;
        let is_first = |kept: &&mut AnswerRecord| kept.replaced.is_none();
        let kept = self.0.iter_mut().find(|kept| kept.turn_id == turn.turn_id);
        if let Some(kept) = kept.filter(is_first) {
            kept.replaced = Some(Replaced { before, turn: Arc::clone(turn) });
            self.make_room();
        }
    }

    /// Deletes the answer of a turn; false if there is none.
    pub(crate) fn delete(&mut self, turn_id: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|kept| kept.turn_id != turn_id);
        self.0.len() < before
    }

    /// Their length as JSON, and the size of the turns that only they refer to.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(AnswerRecord::bytes).sum()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets the oldest answers beyond the limits. The latest stays whatever its size.
    fn make_room(&mut self) {
        let mut bytes = self.bytes();
        while self.0.len() > limits::ANSWERS_MAX
            || (bytes > limits::ANSWER_BYTES_MAX && self.0.len() > 1)
        {
            let Some(oldest) = self.0.pop_front() else { return };
            bytes -= oldest.bytes();
        }
    }
}

impl AnswerRecord {
    fn bytes(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |answer| answer.get().len());
        let replaced = self.replaced.as_ref().map_or(0, |replaced| replaced.turn.bytes());
        self.begun.get().len() + answer + replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(bytes: usize) -> Arc<RawValue> {
        let text = format!("\"{}\"", "x".repeat(bytes - 2));
        Arc::from(RawValue::from_string(text).unwrap())
    }

    fn ids(answers: &AnswerRecords) -> Vec<&str> {
        answers.turn_ids().collect()
    }

    #[test]
    fn as_many_as_may_be_and_one_more() {
        let mut answers = AnswerRecords::default();
        for number in 0..limits::ANSWERS_MAX {
            answers.begin(&number.to_string(), json(2));
        }
        assert_eq!(answers.0.len(), limits::ANSWERS_MAX);
        answers.begin("more", json(2));
        assert_eq!(answers.0.len(), limits::ANSWERS_MAX);
        assert!(answers.find("0").is_none() && answers.find("1").is_some());
    }

    #[test]
    fn as_many_bytes_as_may_be_and_one_more() {
        let half = limits::ANSWER_BYTES_MAX / 2;
        let mut answers = AnswerRecords::default();
        answers.begin("1", json(half));
        answers.begin("2", json(half - 2));
        answers.end("2", Some(json(2)));
        assert_eq!(ids(&answers), ["1", "2"]);
        answers.end("2", Some(json(3)));
        assert_eq!(ids(&answers), ["2"]);
        answers.end("2", Some(json(limits::ANSWER_BYTES_MAX)));
        assert_eq!(ids(&answers), ["2"], "the latest stays whatever its size");
    }
}
