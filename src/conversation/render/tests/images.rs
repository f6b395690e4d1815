//! Which images a model is shown, and where.

use super::{context, images, turn_with, with_images};
use crate::conversation::render::Context;
use crate::conversation::{
    Answer, Conversation, Ending, Given, Outcome, Part, PlacedImage, Step, Turn,
};
use crate::event::TurnFinish;
use crate::limits::turn::{IMAGE_BYTES_MAX, IMAGE_TOKENS, IMAGES_MAX};
use crate::upstream::{History, Message, MessagePart};

/// A turn in which a tool returned these images.
fn turn_with_images(ids: &str, bytes: usize) -> Turn {
    turn_with(Outcome::Ended(with_images(ids, bytes)))
}

/// The messages after the system's and the prompt, with images as their ids.
fn seen(messages: &[Message]) -> Vec<String> {
    let part = |part: &MessagePart| match part {
        MessagePart::Image(image) => format!("<{}>", image.id),
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
    let introduced = "The images of the results above:\n\
                      `look` (call00001), artifact a1:<a>\n`look` (call00001), artifact a2:<b>";
    assert_eq!(seen(&context.messages(History::Native, &images)), [listed, introduced]);
    let closing = Context { closing: Some("Now answer.".into()), ..context };
    let lines = &seen(&closing.messages(History::Native, &images))[0];
    assert!(lines.ends_with("artifact a2]<a><b>\n\nNow answer."), "{lines}");
}

#[test]
fn images_that_are_no_longer_kept_are_named_only() {
    let context = context(turn_with_images("ab", 1), None, 4000);
    let text = &seen(&context.messages(History::Text, &images("b")))[0];
    assert!(text.contains("artifact a1]"), "{text}");
    assert!(text.contains("]}\nartifact a2:<b>\n\n"), "{text}");
}

/// A turn in which one call returned this image, and the next was the same and did not run.
fn turn_with_repeat(id: &str) -> Turn {
    let mut turn = turn_with_images(id, 1);
    let repeat = turn_with(Outcome::NotRun(with_images(id, 1)));
    let call = repeat.steps[0].parts.iter().find(|part| matches!(part, Part::Call(_)));
    turn.steps[0].parts.extend(call.cloned());
    turn
}

#[test]
fn a_repeated_call_shows_nothing_of_its_own() {
    let context = context(turn_with_repeat("a"), None, 4000);
    let context = Context { images_max: IMAGES_MAX, ..context };
    assert_eq!(context.images(), ["a"]);
    let text = seen(&context.messages(History::Text, &images("a"))).concat();
    assert_eq!(text.matches("<a>").count(), 1, "{text}");
}

#[test]
fn with_native_calls_images_are_named_by_their_calls() {
    let mut turn = turn_with_images("ab", 1);
    let other = turn_with_images("c", 1).steps.remove(0).parts.remove(1);
    turn.steps[0].parts.push(other);
    let context = context(turn, None, 4000);
    let told = seen(&context.messages(History::Native, &images("bc")));
    let names = "The images of the results above:\n\
                 `look` (call00001), artifact a2:<b>\n`look` (call00002), artifact a1:<c>";
    assert_eq!(told.last().unwrap(), names);
}

#[test]
fn the_newest_images_are_wanted_as_far_as_they_have_room() {
    for (images_max, bytes, expected) in [
        (0, 1, ""),
        (1, 1, "d"),
        (2, 1, "dc"),
        (8, 1, "dcba"),
        (8, IMAGE_BYTES_MAX / 3, "dcb"),
        (8, IMAGE_BYTES_MAX / 3 + 1, "dc"),
    ] {
        let mut history = Conversation::default();
        history.push(turn_with_images("ab", bytes));
        let current = turn_with_images("cd", bytes);
        let context = Context { history, images_max, ..context(current, None, 0) };
        assert_eq!(context.images().concat(), expected, "{images_max} {bytes}");
    }
}

#[test]
fn only_images_that_servers_take_are_wanted() {
    let mut result = with_images("ab", 1);
    result.artifacts[0].mime_type = "image/svg+xml".to_owned();
    let context = context(turn_with(Outcome::Ended(result)), None, 0);
    let context = Context { images_max: IMAGES_MAX, ..context };
    assert_eq!(context.images(), ["b"]);
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

/// A turn whose prompt shows these images, and ends with a note for each.
fn showing(ids: &str) -> Turn {
    let (mut prompt, mut placed) = ("Look:".to_owned(), Vec::new());
    for (file, number) in with_images(ids, 1).artifacts.into_iter().zip(1_u8..) {
        prompt.extend([" (a", &number.to_string(), ")"]);
        placed.push(PlacedImage { at: prompt.len(), file });
    }
    prompt.push_str(" So?");
    Turn { prompt, images: placed, ..Turn::default() }
}

/// The user's words at the start of a turn, with images as their ids.
fn opening(turn: Turn, ids: &str) -> String {
    let messages = context(turn, None, 4000).messages(History::Text, &images(ids));
    let part = |part: &MessagePart| match part {
        MessagePart::Image(image) => format!("<{}>", image.id),
        MessagePart::Text(text) => text.clone(),
        part => format!("{part:?}"),
    };
    messages[1].parts.iter().map(part).collect()
}

#[test]
fn images_of_the_user_follow_their_notes() {
    assert_eq!(opening(showing("ab"), "ab"), "Look: (a1)<a> (a2)<b> So?");
    assert_eq!(opening(showing("ab"), "b"), "Look: (a1) (a2)<b> So?");
    let dropped = Turn { dropped: Some("Which?".to_owned()), ..showing("a") };
    let told = "(The question \"Which?\" was left unanswered; it is dropped.)\n\n";
    assert_eq!(opening(dropped, "a"), format!("{told}Look: (a1)<a> So?"));
}

#[test]
fn images_of_an_answer_follow_it() {
    let answer = Answer {
        clarification_id: "t.1".to_owned(),
        question: "Which?".to_owned(),
        given: Given::Text("Look.".to_owned()),
        not_chosen: Vec::new(),
        beside: None,
    };
    let turn = Turn { answer: Some(Box::new(answer.clone())), ..showing("ab") };
    let told = "To the question \"Which?\" the user says: Look.<a><b>";
    assert_eq!(opening(turn, "ab"), told);
    // Those in what the user says beside it stay there.
    let Turn { prompt, images, .. } = showing("a");
    let answer = Some(Box::new(Answer { beside: Some(prompt), ..answer }));
    let turn = Turn { prompt: "Look.".to_owned(), images, answer, ..Turn::default() };
    let told = "To the question \"Which?\" the user says: Look.\n\nLook: (a1)<a> So?";
    assert_eq!(opening(turn, "a"), told);
}

/// A place that is not in the text must not stop a session from going on.
#[test]
fn an_image_with_a_wrong_place_is_shown_at_the_end() {
    for at in [1, 9, usize::MAX] {
        let mut turn = showing("a");
        turn.prompt = "éé".to_owned();
        turn.images[0].at = at;
        assert_eq!(opening(turn, "a"), "éé<a>", "{at}");
    }
}

#[test]
fn the_newest_images_are_wanted_whoever_they_are_from() {
    let mut turn = turn_with_images("b", 1);
    (turn.prompt, turn.images) = ("?".to_owned(), showing("a").images);
    let step = &mut turn.steps[0];
    (step.aside, step.aside_images) = ("!".to_owned(), showing("c").images);
    let mut history = Conversation::default();
    history.push(turn);
    let context = Context { history, images_max: 4, ..context(showing("de"), None, 0) };
    assert_eq!(context.images().concat(), "edcb");
}

#[test]
fn prompts_with_images_need_more_room() {
    let mut history = Conversation::default();
    let ending = Some(Ending::Completed(TurnFinish::Stop));
    let steps = vec![Step { parts: vec![Part::Text("A cat.".to_owned())], ..Step::default() }];
    history.push(Turn { steps, ending, ..showing("a") });
    let (current, budget) = (Turn { prompt: "And?".to_owned(), ..Turn::default() }, 200);
    let context = Context { history, ..context(current, None, budget) };
    let number = |context: &Context, ids: &str| context.messages(History::Text, &images(ids)).len();
    assert_eq!(number(&context, "a"), 2, "the system and the prompt");
    assert_eq!(number(&context, ""), 4, "for an upstream that takes no images");
    assert_eq!(number(&Context { budget: budget + IMAGE_TOKENS, ..context }, "a"), 4);
}
