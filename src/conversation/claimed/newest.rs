//! The newest messages of a list that is too long.

use std::collections::HashSet;

use super::ClaimedMessage;
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
    let mut newest = Newest::default();
    for message in messages.drain(..).rev() {
        newest.add(message);
    }
    let Newest { kept, mut calls_left_out, .. } = newest;
    // Some clients use ids again.
    for message in &kept {
        if let ClaimedMessage::Assistant { calls, .. } = message {
            for call in calls {
                calls_left_out.remove(&call.id);
            }
        }
    }
    // Without its call, a result says nothing.
    let is_left_out = |message: &ClaimedMessage| match message {
        ClaimedMessage::Result { call_id, .. } => calls_left_out.contains(call_id),
        _ => false,
    };
    messages.extend(kept.into_iter().rev().filter(|message| !is_left_out(message)));
    true
}

#[derive(Default)]
struct Newest {
    /// The newest first.
    kept: Vec<ClaimedMessage>,
    said: usize,
    called: usize,
    returned: usize,
    /// Whether the oldest message that was kept follows a prompt that was not.
    lacks_prompt: bool,
    calls_left_out: HashSet<String>,
}

impl Newest {
    /// Adds an older message, if there is room.
    fn add(&mut self, mut message: ClaimedMessage) {
        let is_prompt = matches!(message, ClaimedMessage::User(_));
        let has_room = self.said < HISTORY_MESSAGES_MAX;
        let stays = match message {
            ClaimedMessage::System(_) => true,
            ClaimedMessage::User(_) => has_room || self.lacks_prompt,
            ClaimedMessage::Aside(_) | ClaimedMessage::Assistant { .. } => has_room,
            ClaimedMessage::Result { .. } => self.returned < HISTORY_CALLS_MAX,
        };
        self.drop_calls(&mut message, if stays { HISTORY_CALLS_MAX - self.called } else { 0 });
        if !stays {
            return;
        }
        if is_said(&message) {
            self.said += 1;
            self.lacks_prompt = !is_prompt;
        }
        self.called += calls(&message);
        self.returned += usize::from(is_result(&message));
        self.kept.push(message);
    }

    /// Leaves out the message's first calls, so that no more than `most` are left.
    fn drop_calls(&mut self, message: &mut ClaimedMessage, most: usize) {
        if let ClaimedMessage::Assistant { calls, .. } = message {
            let over = calls.len().saturating_sub(most);
            self.calls_left_out.extend(calls.drain(..over).map(|call| call.id));
        }
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
    fn as_many_calls_as_may_be_and_one_more() {
        let list = |count: usize| vec![user("Do it."), calling(0..count), result(0), result(1)];
        assert_eq!(kept(list(HISTORY_CALLS_MAX)), None);
        let expected = vec![user("Do it."), calling(1..=HISTORY_CALLS_MAX), result(1)];
        assert_eq!(kept(list(HISTORY_CALLS_MAX + 1)), Some(expected));
    }
}
