//! Messages after a stored turn that has handed out two calls, `call_1` and `call_2`.

use super::restored::{call, turn};
use super::*;
use crate::event::TurnFinish;
use crate::limits::session::CLIENT_IMAGES_MAX;

#[track_caller]
fn after(returned: &[(&str, Content)], messages: Vec<ClaimedMessage>) -> Adopted {
    let mut history = Conversation::default();
    let calls = [1, 2].map(|number| call(number, "look", Outcome::HandedOut));
    history.push(turn("waits", 2, &[&calls], TurnFinish::ClientToolCalls));
    let returned = returned.iter().map(|(id, output)| ((*id).to_owned(), output.clone())).collect();
    let claimant = Claimant { owner: "key", lookup: &Shelf::default(), conversation: None };
    adopt_after(history, returned, messages, claimant, "").unwrap()
}

fn shows(number: u8) -> Content {
    [ContentPart::Image(picture(number))].into_iter().collect()
}

#[test]
fn a_call_without_a_result_counts_as_not_run() {
    let not_run = "error: not run: the client returned no result";
    let adopted = after(&[("call_2", "7".into())], vec![user("And?")]);
    let expected = [
        "user: ?",
        &format!("call_1: look {{}} claimed {not_run}"),
        "call_2: look {} claimed {\"text\":\"7\"}",
        "asks: And?",
    ];
    assert_eq!(outline(&adopted), expected);
    assert_eq!(adopted.repairs.of(Repair::MissingResult), 1);
    let adopted = after(&[("call_2", "7".into())], Vec::new());
    let expected = [
        "user: ?",
        "call_1: look {} HandedOut",
        "call_2: look {} HandedOut",
        &format!("returns: call_1 {not_run}"),
        "returns: call_2 {\"text\":\"7\"}",
    ];
    assert_eq!(outline(&adopted), expected);
    assert_eq!(adopted.repairs.of(Repair::MissingResult), 1);
}

/// The messages come after the results, and have newer images.
#[test]
fn results_share_the_room_for_images_with_the_messages() {
    let most = u8::try_from(CLIENT_IMAGES_MAX).unwrap();
    for (in_messages, left) in [(most, &[][..]), (most - 1, &[102][..]), (most - 2, &[101, 102])] {
        let messages = (0..in_messages).map(|number| ClaimedMessage::User(shows(number)));
        let returned = [("call_1", shows(101)), ("call_2", shows(102))];
        let adopted = after(&returned, messages.collect());
        let kept: Vec<u8> = adopted.images.files.iter().map(|image| image.bytes[6]).collect();
        let expected: Vec<u8> = left.iter().copied().chain(0..in_messages).collect();
        assert_eq!(kept, expected);
    }
}
