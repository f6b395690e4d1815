//! The newest messages of a list that is too long.

use std::collections::HashMap;

use super::ClaimedMessage;
use super::pairs::{Pairing, Pairs, Place};
use crate::limits::session::{HISTORY_CALLS_MAX, HISTORY_MESSAGES_MAX};

/// Leaves out the oldest messages, calls and results of a list that has too many. Instructions stay,
/// and so does the prompt of the first message that stays. Returns whether there were too many.
pub(super) fn keep(messages: &mut Vec<ClaimedMessage>) -> bool {
    let said = messages.iter().filter(|message| is_said(message)).count();
    let called: usize = messages.iter().map(calls).sum();
    let returned = messages.iter().filter(|message| is_result(message)).count();
    if said <= HISTORY_MESSAGES_MAX && called.max(returned) <= HISTORY_CALLS_MAX {
        return false;
    }
    let calls_of_results = calls_of_results(messages);
    let mut newest = Newest::default();
    for (at, message) in messages.drain(..).enumerate().rev() {
        newest.add(at, message);
    }
    let Newest { kept, left_out, .. } = newest;
    // Without its call, a result says nothing.
    let is_left_out = |at: &usize| {
        let call = calls_of_results.get(at);
        call.is_some_and(|call| left_out.get(&call.reply).is_some_and(|count| call.call < *count))
    };
    let kept = kept.into_iter().rev().filter(|(at, _)| !is_left_out(at));
    messages.extend(kept.map(|(_, message)| message));
    true
}

/// The call of each result, by the result's place among the messages. A result that comes twice says something of the
/// same call.
fn calls_of_results(messages: &[ClaimedMessage]) -> HashMap<usize, Place> {
    let (mut pairs, mut last, mut found) = (Pairs::default(), HashMap::new(), HashMap::new());
    for (at, message) in messages.iter().enumerate() {
        match message {
            ClaimedMessage::Assistant { calls, .. } => {
                let place = |call: usize| Place { exchange: 0, reply: at, call };
                pairs.add(calls.iter().enumerate().map(|(n, call)| (&*call.id, place(n))));
            }
            ClaimedMessage::Result { call_id, .. } => {
                if let Pairing::Call(place) = pairs.pair(call_id) {
                    last.insert(call_id, place);
                }
                found.extend(last.get(call_id).map(|place| (at, *place)));
            }
            _ => {}
        }
    }
    found
}

#[derive(Default)]
struct Newest {
    /// The newest first, each with its place among all.
    kept: Vec<(usize, ClaimedMessage)>,
    said: usize,
    called: usize,
    returned: usize,
    /// Whether the oldest message that was kept follows a prompt that was not.
    lacks_prompt: bool,
    /// How many of the first calls of a message are left out, by its place.
    left_out: HashMap<usize, usize>,
}

impl Newest {
    /// Adds an older message, if there is room.
    fn add(&mut self, at: usize, mut message: ClaimedMessage) {
        let is_prompt = matches!(message, ClaimedMessage::User(_));
        let has_room = self.said < HISTORY_MESSAGES_MAX;
        let stays = match message {
            ClaimedMessage::System(_) => true,
            ClaimedMessage::User(_) => has_room || self.lacks_prompt,
            ClaimedMessage::Aside(_) | ClaimedMessage::Assistant { .. } => has_room,
            ClaimedMessage::Result { .. } => self.returned < HISTORY_CALLS_MAX,
        };
        let most = if stays { HISTORY_CALLS_MAX - self.called } else { 0 };
        if let ClaimedMessage::Assistant { calls, .. } = &mut message {
            let over = calls.len().saturating_sub(most);
            calls.drain(..over);
            self.left_out.insert(at, over);
        }
        if !stays {
            return;
        }
        if is_said(&message) {
            self.said += 1;
            self.lacks_prompt = !is_prompt;
        }
        self.called += calls(&message);
        self.returned += usize::from(is_result(&message));
        self.kept.push((at, message));
    }
}

fn is_said(message: &ClaimedMessage) -> bool {
    matches!(
        message,
        ClaimedMessage::User(_) | ClaimedMessage::Aside(_) | ClaimedMessage::Assistant { .. }
    )
}

fn is_result(message: &ClaimedMessage) -> bool {
    matches!(message, ClaimedMessage::Result { .. })
}

fn calls(message: &ClaimedMessage) -> usize {
    match message {
        ClaimedMessage::Assistant { calls, .. } => calls.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClaimedCall;
    use super::*;

    fn user(text: &str) -> ClaimedMessage {
        ClaimedMessage::User(text.into())
    }

    fn calling(ids: impl IntoIterator<Item = usize>) -> ClaimedMessage {
        let call = |id: usize| ClaimedCall {
            id: id.to_string(),
            name: "look".to_owned(),
            arguments: "{}".to_owned(),
        };
        let calls = ids.into_iter().map(call).collect();
        ClaimedMessage::Assistant { text: "So:".to_owned(), calls }
    }

    fn result(id: usize) -> ClaimedMessage {
        let output = "found".into();
        ClaimedMessage::Result { call_id: id.to_string(), output, is_error: false }
    }

    fn kept(mut messages: Vec<ClaimedMessage>) -> Option<Vec<ClaimedMessage>> {
        keep(&mut messages).then_some(messages)
    }

    #[test]
    fn as_many_messages_as_may_be_and_one_more() {
        let many = |count: usize| (0..count).map(|n| user(&n.to_string()));
        let system = ClaimedMessage::System("Be kind.".to_owned());
        let list = |count| std::iter::once(system.clone()).chain(many(count)).collect::<Vec<_>>();
        assert_eq!(kept(list(HISTORY_MESSAGES_MAX)), None);
        let newest: Vec<_> = list(HISTORY_MESSAGES_MAX + 1);
        let mut expected = newest.clone();
        expected.remove(1);
        assert_eq!(kept(newest), Some(expected));
    }

    #[test]
    fn the_running_turn_keeps_its_prompt() {
        let mut list = vec![user("old"), calling([]), user("Do it.")];
        list.extend((0..=HISTORY_MESSAGES_MAX).flat_map(|id| [calling([id]), result(id)]));
        let kept = kept(list).unwrap();
        assert_eq!(kept[..3], [user("Do it."), calling([1]), result(1)]);
        assert_eq!(kept.len(), 2 * HISTORY_MESSAGES_MAX + 1);
    }

    #[test]
    fn results_go_with_their_calls_even_if_ids_are_used_again() {
        let round = |n: usize| [user(&n.to_string()), calling([7]), result(7)];
        let mut list: Vec<_> = (0..HISTORY_MESSAGES_MAX).flat_map(round).collect();
        list.push(user("Well?"));
        let kept = kept(list).unwrap();
        let count = |wanted: &ClaimedMessage| kept.iter().filter(|it| *it == wanted).count();
        assert_eq!(count(&result(7)), count(&calling([7])));
        let after_call =
            |pair: &[ClaimedMessage]| (pair[1] != result(7)) || pair[0] == calling([7]);
        assert!(kept.windows(2).all(after_call));
    }

    /// As if none had been left out: each call has the first result after it that no nearer one has.
    #[test]
    fn calls_of_one_message_with_the_same_id_have_a_result_each() {
        let result = |text: &str| {
            let output = text.into();
            ClaimedMessage::Result { call_id: "7".to_owned(), output, is_error: false }
        };
        let others = calling(10..10 + HISTORY_CALLS_MAX - 1);
        let list =
            vec![user("?"), calling([7, 7]), result("first"), result("second"), others.clone()];
        let expected = vec![user("?"), calling([7]), result("second"), others];
        assert_eq!(kept(list), Some(expected));
    }

    #[test]
    fn more_results_than_calls_are_left_out() {
        let list = |count: usize| [vec![user("Do it.")], (0..count).map(result).collect()].concat();
        assert_eq!(kept(list(HISTORY_CALLS_MAX)), None);
        let kept = kept(list(HISTORY_CALLS_MAX + 1)).unwrap();
        assert_eq!(kept.len(), 1 + HISTORY_CALLS_MAX);
        assert_eq!(kept[..2], [user("Do it."), result(1)]);
    }

    #[test]
    fn as_many_calls_as_may_be_and_one_more() {
        let list = |count: usize| vec![user("Do it."), calling(0..count), result(0), result(1)];
        assert_eq!(kept(list(HISTORY_CALLS_MAX)), None);
        let expected = vec![user("Do it."), calling(1..=HISTORY_CALLS_MAX), result(1)];
        assert_eq!(kept(list(HISTORY_CALLS_MAX + 1)), Some(expected));
    }
}
