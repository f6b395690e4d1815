//! Images that clients send: what becomes of them, and when they are the same.

use super::*;
use crate::conversation::{PlacedImage, Step, Words};
use crate::limits::session::{CLIENT_IMAGE_BYTES_MAX, CLIENT_IMAGES_MAX};
use crate::upstream::{Image, MessagePart};

/// Words, and images as numbers between them.
fn content(parts: &[Result<&str, u8>]) -> Content {
    let parts = parts.iter().map(|part| match part {
        Ok(words) => ContentPart::Words((*words).to_owned()),
        Err(number) => ContentPart::Image(picture(*number)),
    });
    parts.collect()
}

fn shows(parts: &[Result<&str, u8>]) -> ClaimedMessage {
    ClaimedMessage::User(content(parts))
}

/// An image of this many bytes.
fn large(length: usize) -> ClaimedMessage {
    let mut bytes = b"GIF89a".to_vec();
    bytes.resize(length, 0);
    let image = ClaimedImage::read(bytes.into()).unwrap();
    ClaimedMessage::User([ContentPart::Image(image)].into_iter().collect())
}

fn asks(adopted: &Adopted) -> &str {
    match &adopted.input {
        ClientInput::Words(words) => words,
        other => panic!("{other:?}"),
    }
}

/// The numbers of the images that are kept, oldest first.
fn restored(adopted: &Adopted) -> Vec<u8> {
    adopted.images.files.iter().map(|image| image.bytes[6]).collect()
}

fn ids(adopted: &Adopted) -> Vec<&str> {
    adopted.images.files.iter().map(|image| &*image.id).collect()
}

/// What the model is shown in a form, with each image as its number.
fn shown(adopted: &Adopted, form: History) -> Vec<String> {
    let messages = rendered(adopted, form);
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) | MessagePart::Result { output: text, .. } => text.clone(),
        MessagePart::Image(Image { bytes, .. }) => format!("<{}>", bytes[6]),
        MessagePart::Call(call) => format!("{} {}", call.name, call.arguments),
        MessagePart::Reasoning(_) => String::new(),
    };
    messages.iter().skip(1).map(|it| it.parts.iter().map(part).collect::<String>()).collect()
}

#[test]
fn an_image_stays_where_it_was_put() {
    let adopted = adopted(vec![
        shows(&[Err(1)]),
        says("A cat."),
        shows(&[Ok("Is this"), Err(2), Ok("or this"), Err(3), Ok("older?")]),
        user("Look."),
        shows(&[Ok("And"), Err(4)]),
    ]);
    assert_eq!(restored(&adopted), [1, 2, 3, 4]);
    let note = |number| format!("[image image/gif, 7 bytes, artifact a{number}]");
    let expected = [
        format!("{}<1>", note(1)),
        "A cat.".to_owned(),
        format!(
            "Is this\n{}<2>\nor this\n{}<3>\nolder?\n\nLook.\n\nAnd\n{}<4>",
            note(1),
            note(2),
            note(3)
        ),
    ];
    assert_eq!(shown(&adopted, History::Text), expected);
    assert_eq!(shown(&adopted, History::Native), expected);
}

#[test]
fn an_image_that_a_call_returned_follows_its_result() {
    let output = content(&[Ok("A page:"), Err(1)]);
    let alone = content(&[Err(2)]);
    let result =
        |id: &str, output| ClaimedMessage::Result { call_id: id.into(), output, is_error: false };
    let adopted = adopted(vec![
        user("Open both."),
        calls("", &["a", "b"]),
        result("a", output),
        result("b", alone),
        ClaimedMessage::Aside(content(&[Ok("This one"), Err(3)])),
    ]);
    assert_eq!(restored(&adopted), [1, 2, 3]);
    let text = shown(&adopted, History::Text).pop().unwrap();
    let listed = "\"artifacts\":[\"[image image/gif, 7 bytes, artifact a1]\"]}";
    let of_a = format!("`look` (call_1) returned: {{\"text\":\"A page:\\n\",{listed}<1>");
    let of_b = format!("\n\n`look` (call_2) returned: {{{listed}<2>");
    let beside = "\n\nThis one\n[image image/gif, 7 bytes, artifact a1]<3>";
    assert!(text.starts_with(&format!("{of_a}{of_b}{beside}")), "{text}");
    let native = shown(&adopted, History::Native);
    let told = "The images of the results above:\n`look` (call00001), artifact a1:<1>\n\
                `look` (call00002), artifact a1:<2>\nWhat the user adds, artifact a1:<3>";
    assert_eq!(native.last().unwrap(), told);
    let ClientInput::Results(results) = &adopted.input else { panic!("{:?}", adopted.input) };
    assert!(results.iter().all(|it| it.result.artifacts.len() == 1));
}

/// The gateway has to keep the session of a turn whose tools have returned files, but not of these.
#[test]
fn files_that_a_client_has_are_none_of_ours() {
    let output = content(&[Err(1)]);
    let adopted = adopted(vec![
        shows(&[Err(2)]),
        calls("", &["a"]),
        ClaimedMessage::Result { call_id: "a".into(), output, is_error: false },
        says("A cat."),
        user("And?"),
    ]);
    assert!(adopted.history.turns().all(|turn| !turn.has_files()));
}

/// Turns with these images, one each, and a question about them.
fn asked_after(images: impl IntoIterator<Item = ClaimedMessage>) -> Adopted {
    let messages = images.into_iter().flat_map(|image| [image, says("I see.")]);
    adopted(messages.chain([user("Well?")]).collect())
}

fn prompts(adopted: &Adopted) -> Vec<String> {
    adopted.history.turns().map(|turn| turn.prompt.clone()).collect()
}

#[test]
fn as_many_images_as_may_be_and_one_more() {
    let most = u8::try_from(CLIENT_IMAGES_MAX).unwrap();
    let all = asked_after((0..most).map(|number| shows(&[Err(number)])));
    assert_eq!(restored(&all), (0..most).collect::<Vec<_>>());
    let more = asked_after((0..=most).map(|number| shows(&[Err(number)])));
    assert_eq!(restored(&more), (1..=most).collect::<Vec<_>>(), "the oldest has no room");
    let note = "[image image/gif, 7 bytes, artifact a1]";
    assert_eq!(prompts(&more), vec![note; CLIENT_IMAGES_MAX + 1], "but all are named");
    assert_eq!(all.repairs, Repairs::default());
}

#[test]
fn as_many_bytes_of_images_as_may_be_and_one_more() {
    let half = CLIENT_IMAGE_BYTES_MAX / 2;
    assert_eq!(asked_after([large(half), large(half)]).images.files.len(), 2);
    // The small one is older than the one that has no room.
    let more = asked_after([shows(&[Err(0)]), large(half + 1), large(half)]);
    let lengths: Vec<_> = more.images.files.iter().map(|image| image.bytes.len()).collect();
    assert_eq!(lengths, [half]);
}

#[test]
fn the_same_image_again_is_another_one_with_the_same_bytes() {
    let adopted = adopted(vec![shows(&[Err(1), Err(1)]), says("Twins."), shows(&[Err(1)])]);
    let [first, second, third] = &adopted.images.files[..] else { panic!("{:?}", adopted.images) };
    assert!(first.id != second.id && second.id != third.id && first.id != third.id);
    assert!([second, third].iter().all(|it| it.bytes.as_ptr() == first.bytes.as_ptr()));
    assert_eq!(shown(&adopted, History::Text).concat().matches("<1>").count(), 3);
}

#[test]
fn an_image_has_the_same_id_whenever_its_conversation_is_sent() {
    let mut list = vec![shows(&[Err(1)]), says("A cat."), shows(&[Err(1), Err(2)])];
    let first = adopted(list.clone());
    list.extend([says("A dog."), shows(&[Err(3)])]);
    let second = adopted(list.clone());
    assert_eq!(ids(&first), ids(&second)[..3]);
    let seeded = |seed| {
        let claimant = Claimant { owner: "key", lookup: &Shelf::default(), conversation: None };
        let (history, returned) = (Conversation::default(), HashMap::new());
        adopt_after(history, returned, list.clone(), claimant, seed).unwrap()
    };
    assert_ne!(ids(&seeded("a")), ids(&seeded("b")), "nobody can guess it");
}

#[test]
fn the_prefix_hash_covers_images() {
    let prefix = |images: &[u8]| {
        let images = images.iter().map(|number| shows(&[Ok("Look."), Err(*number)]));
        asked_after(images).prefix
    };
    assert_eq!(prefix(&[1, 2]), prefix(&[1, 2]));
    assert_ne!(prefix(&[1, 2]), prefix(&[2, 1]));
    assert_ne!(prefix(&[1]), asked_after([user("Look.\n")]).prefix);
    // An image that no longer has room counts as before.
    let many: Vec<_> = (0..=9).flat_map(|number| [shows(&[Err(number)]), says("So.")]).collect();
    let whole = many.iter().fold(PrefixHash::begin("key"), PrefixHash::after);
    let adopted = adopted(many);
    assert_eq!(adopted.prefix, whole);
    assert!(!restored(&adopted).contains(&0));
}

#[test]
fn a_turn_of_ours_gets_its_images_from_the_request() {
    let list = vec![shows(&[Ok("What is it?"), Err(1)]), says("A cat."), user("Sure?")];
    let stale = adopted(vec![user("Before."), shows(&[Err(9)])]).images.opening;
    let step = Step { parts: vec![Part::Text("A cat.".to_owned())], ..Step::default() };
    let (turn_id, steps) = ("t".to_owned(), vec![step]);
    let ours = Arc::new(Turn { turn_id, images: stale, steps, ..Turn::default() });
    let prefix = list[..2].iter().fold(PrefixHash::begin("key"), PrefixHash::after);
    let shelf = Shelf { by_prefix: [(prefix, ours)].into(), ..Shelf::default() };
    let adopted = adopt(list, "key", &shelf).unwrap();
    let turn = adopted.history.turns().next_back().unwrap();
    assert_eq!((&*turn.turn_id, turn.images.len()), ("t", 1));
    assert_eq!(turn.images[0].file.id.as_deref(), Some(ids(&adopted)[0]));
}

#[test]
fn an_image_alone_is_a_message() {
    let adopted = adopted(vec![shows(&[Err(1)])]);
    assert_eq!(asks(&adopted), "[image image/gif, 7 bytes, artifact a1]");
    let PlacedImage { at, file } = &adopted.images.opening[0];
    assert_eq!((*at, file.id.as_deref()), (asks(&adopted).len(), Some(ids(&adopted)[0])));
    assert_eq!(adopted.repairs, Repairs::default());
}

/// The client's words name an image of somebody else. They are only words.
#[test]
fn a_note_in_a_text_shows_nothing() {
    let other = adopted(vec![shows(&[Err(1)])]);
    let note = format!("[image image/gif, 7 bytes, artifact {}]", ids(&other)[0]);
    let messages = vec![user("[image image/gif, 7 bytes, artifact a1]"), says("?"), user(&note)];
    let adopted = adopted(messages);
    assert_eq!(adopted.images, ClientImages::default());
    assert!(context(&adopted).images().is_empty());
}

#[test]
fn paragraphs_move_the_images_behind_them() {
    let image = |at| PlacedImage {
        at,
        file: adopted(vec![shows(&[Err(1)])]).images.opening[0].file.clone(),
    };
    let words = |text: &str, at| Words { text: text.to_owned(), images: vec![image(at)] };
    let mut all = Words::default();
    all.add(words("ab", 1));
    all.add(words("cd", 2));
    assert_eq!(all.text, "ab\n\ncd");
    assert_eq!(all.images, [image(1), image(6)]);
}
