//! Which images a model is shown, and where.

use std::sync::Arc;

use super::{context, images, turn_with, with_images};
use crate::conversation::render::Context;
use crate::conversation::{Conversation, Outcome, Turn};
use crate::limits::turn::{IMAGE_BYTES_MAX, IMAGE_TOKENS, TOLD_SHARE};
use crate::upstream::{History, Message, MessagePart, Prompt as _};

/// A turn in which a tool returned these images.
fn turn_with_images(ids: &str, bytes: usize) -> Turn {
    turn_with(Outcome::Ended(with_images(ids, bytes)))
}

/// The messages after the system's and the prompt, with images as their ids.
fn seen(messages: &[Message]) -> Vec<String> {
    let part = |part: &MessagePart| match part {
        MessagePart::Image(image) => format!("<{}>", String::from_utf8_lossy(&image.bytes)),
        MessagePart::Text(text) | MessagePart::Result { output: text, .. } => text.clone(),
        MessagePart::Call(_) | MessagePart::Reasoning(_) => String::new(),
    };
    let texts = messages.iter().map(|message| message.parts.iter().map(part).collect());
    texts.skip(3).collect()
}

#[test]
fn images_follow_the_results_that_name_them() {
    let listed = "{\"artifacts\":[\"[image image/png, 1 bytes, artifact a1]\",\
                  \"[image image/png, 1 bytes, artifact a2]\"]}";
    let (context, images) = (context(turn_with_images("ab", 1), None, 4000), images("ab"));
    let text = format!("`look` (call_1) returned: {listed}<a><b>\n\nUse it to answer my question.");
    assert_eq!(seen(&context.messages(History::Text, &images)), [text]);
    let introduced = "The images of the results above, in this order:<a><b>".to_owned();
    assert_eq!(seen(&context.messages(History::Native, &images)), [listed.to_owned(), introduced]);
    let closing = Context { closing: Some("Now answer."), ..context };
    let lines = &seen(&closing.messages(History::Native, &images))[0];
    assert!(lines.ends_with("artifact a2]<a><b>\n\nNow answer."), "{lines}");
}

#[test]
fn images_that_are_no_longer_kept_are_named_only() {
    let context = context(turn_with_images("ab", 1), None, 4000);
    let text = &seen(&context.messages(History::Text, &images("b")))[0];
    assert!(text.contains("artifact a1]") && text.contains("]}<b>\n\n"), "{text}");
}

#[test]
fn the_newest_images_are_wanted_as_far_as_they_have_room() {
    let room = |images: usize| images * TOLD_SHARE * IMAGE_TOKENS;
    for (budget, bytes, expected) in [
        (0, 1, "d"),
        (room(2) - 1, 1, "d"),
        (room(2), 1, "dc"),
        (usize::MAX, 1, "dcba"),
        (usize::MAX, IMAGE_BYTES_MAX / 3, "dcb"),
        (usize::MAX, IMAGE_BYTES_MAX / 3 + 1, "dc"),
    ] {
        let mut history = Conversation::default();
        history.push(turn_with_images("ab", bytes));
        let current = turn_with_images("cd", bytes);
        let context = Context { history, ..context(current, None, budget) };
        assert_eq!(context.images(), Vec::<String>::new(), "not asked for");
        let context = Context { shows_images: true, ..context };
        assert_eq!(context.images().concat(), expected, "{budget} {bytes}");
    }
}

#[test]
fn no_more_than_eight_images_and_only_those_that_servers_take() {
    let context = context(turn_with_images("abcdefghi", 1), None, usize::MAX);
    let context = Context { shows_images: true, ..context };
    assert_eq!(context.images().concat(), "ihgfedcb");
    let mut result = with_images("a", 1);
    result.artifacts[0].mime_type = "image/svg+xml".to_owned();
    let drawn = turn_with(Outcome::Ended(result));
    let context = Context { current: Arc::new(drawn), ..context };
    assert_eq!(context.images(), Vec::<String>::new());
}

#[test]
fn steps_with_images_need_more_room() {
    let mut history = Conversation::default();
    history.push(turn_with_images("a", 1));
    let (current, budget) = (Turn { prompt: "And?".to_owned(), ..Turn::default() }, 200);
    let context = Context { history, ..context(current, None, budget) };
    let number = |context: &Context, ids: &str| context.messages(History::Text, &images(ids)).len();
    assert_eq!(number(&context, "a"), 2, "the system and the prompt");
    assert!(number(&context, "") > 3, "for an upstream that takes no images");
    let larger = Context { budget: budget + IMAGE_TOKENS, ..context };
    assert!(number(&larger, "a") > 3);
}
