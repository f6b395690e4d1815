//! Whatever a client sends, the model is told a valid sequence in which no word is missing.

use crate::limits::session::HISTORY_CALLS_MAX;
use std::borrow::Cow;
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::conversation::render::sequence::check_sequence;
use crate::conversation::render::tests::any_turn;
use crate::conversation::{Ending, Step};
use crate::event::TurnFinish;

/// Ids are few, so that calls and results meet by chance.
fn any_id() -> impl Strategy<Value = String> {
    "[abc]"
}

fn any_call() -> impl Strategy<Value = ClaimedCall> {
    let arguments = prop_oneof![
        Just("{}".to_owned()),
        Just(r#"{"a": 1}"#.to_owned()),
        Just(r#"{"a": 1"#.to_owned()),
        Just(r#"{"a":1,"a":2}"#.to_owned()),
        Just("[".repeat(1000)),
        ".{0,8}",
    ];
    let name = prop_oneof![9 => Just("look".to_owned()), 1 => ".{0,3}"];
    (any_id(), name, arguments).prop_map(|(id, name, arguments)| ClaimedCall {
        id,
        name,
        arguments,
    })
}

/// A text: usually none, or white space around `WORD`, which becomes a word of its own.
fn any_text() -> impl Strategy<Value = String> {
    const BLOCK: &str = "<details type=\"tool_calls\" done=\"true\"></details>WORD";
    prop_oneof![
        2 => Just(String::new()),
        4 => Just("WORD".to_owned()),
        1 => Just(" \r\nWORD\n".to_owned()),
        1 => Just(BLOCK.to_owned()),
        1 => Just("<details type=\"tool_calls\">WORD".to_owned()),
        1 => Just("1".to_owned()),
        1 => Just("<<function_call>> {\"name\": \"WORD\"}".to_owned()),
    ]
}

fn any_output() -> impl Strategy<Value = String> {
    prop_oneof![
        any_text(),
        Just("{\"found\": \"WORD\"}".to_owned()),
        Just(format!("{}\"WORD\"{}", "[".repeat(126), "]".repeat(126))),
        Just(format!("{}\"WORD\"{}", "[".repeat(1000), "]".repeat(1000))),
    ]
}

fn any_message() -> impl Strategy<Value = ClaimedMessage> {
    prop_oneof![
        1 => any_text().prop_map(ClaimedMessage::System),
        4 => any_content(any_text()).prop_map(ClaimedMessage::User),
        2 => any_content(any_text()).prop_map(ClaimedMessage::Aside),
        5 => (prop_oneof![Just(String::new()), any_text()], prop::collection::vec(any_call(), 0..3))
            .prop_map(|(text, calls)| ClaimedMessage::Assistant { text, calls }),
        5 => (any_id(), any_content(any_output()), any::<bool>()).prop_map(
            |(call_id, output, is_error)| ClaimedMessage::Result { call_id, output, is_error },
        ),
    ]
}

/// A text, perhaps after an image.
fn any_content(text: impl Strategy<Value = String>) -> impl Strategy<Value = Content> {
    let image = prop_oneof![3 => Just(None), 1 => (0..3_u8).prop_map(Some)];
    (image, text).prop_map(|(image, text)| {
        let image = image.map(|number| ContentPart::Image(picture(number)));
        image.into_iter().chain([ContentPart::Words(text)]).collect()
    })
}

/// A list in which each message has a word of its own.
fn any_list() -> impl Strategy<Value = Vec<ClaimedMessage>> {
    prop::collection::vec(any_message(), 0..14).prop_map(|mut messages| {
        for (at, message) in messages.iter_mut().enumerate() {
            let text = text_of(message);
            *text = text.replace("WORD", &format!("w{at}w"));
        }
        messages
    })
}

fn text_of(message: &mut ClaimedMessage) -> &mut String {
    match message {
        ClaimedMessage::System(text)
        | ClaimedMessage::Assistant { text, .. }
        | ClaimedMessage::User(Content { text, .. })
        | ClaimedMessage::Aside(Content { text, .. })
        | ClaimedMessage::Result { output: Content { text, .. }, .. } => text,
    }
}

/// The words of the messages of a kind.
fn words(messages: &[ClaimedMessage], is: impl Fn(&ClaimedMessage) -> bool) -> Vec<String> {
    let with_word = messages.iter().cloned().enumerate().filter(|(_, message)| is(message));
    with_word
        .map(|(at, mut message)| (format!("w{at}w"), std::mem::take(text_of(&mut message))))
        .filter(|(word, text)| text.contains(word.as_str()))
        .map(|(word, _)| word)
        .collect()
}

/// Everything that the model reads.
fn read(messages: &[Message]) -> String {
    let texts = messages.iter().filter_map(Message::text_content);
    let calls = messages.iter().flat_map(Message::calls);
    let calls = calls.map(|call| format!("{} {}", call.name, call.arguments));
    texts.map(Cow::into_owned).chain(calls).collect::<Vec<_>>().join("\n")
}

/// Turns of our own. One is found by its calls, whose ids are the letters from `a`. Others are found
/// by chance.
#[derive(Debug)]
struct Chance {
    turns: Vec<Arc<Turn>>,
    salt: u8,
}

impl TurnLookup for Chance {
    fn by_call(&self, client_call_id: &str) -> Option<FoundCall> {
        let turn = self.turns.get(usize::from(self.salt) % (self.turns.len() + 1))?;
        let at = usize::from(client_call_id.as_bytes()[0] - b'a');
        let call_id = turn.handed_out().nth(at)?.call_id.clone();
        Some(FoundCall { turn: Arc::clone(turn), call_id })
    }

    fn by_prefix(&self, prefix: &PrefixHash) -> Option<Arc<Turn>> {
        let at = format!("{prefix:?}").bytes().map(usize::from).sum::<usize>();
        self.turns.get((at + usize::from(self.salt)) % (self.turns.len() + 2)).cloned()
    }

    fn by_question(&self, _: &str) -> Option<Arc<Turn>> {
        self.turns.get(usize::from(self.salt) % (self.turns.len() + 1)).cloned()
    }

    fn by_answer(&self, _: &str) -> Option<Arc<Turn>> {
        self.turns.get(usize::from(self.salt / 2) % (self.turns.len() + 1)).cloned()
    }
}

/// A turn of our own, some of whose calls were handed out.
fn any_hidden_turn() -> impl Strategy<Value = Turn> {
    let last = prop::collection::vec(Just("look"), 0..4);
    let kind = (any::<bool>(), any::<bool>());
    (any_turn(), last, kind).prop_map(|(mut turn, names, (has_opening, is_asking))| {
        let count = turn.steps.iter().flat_map(Step::calls).count();
        let parts = names.into_iter().enumerate().map(|(at, name)| {
            Part::Call(Arc::new(Call {
                call_id: format!("call_{}", count + at + 1),
                name: name.to_owned(),
                arguments: crate::parser::Arguments::parse("{}").unwrap(),
                resolved_arguments: None,
                outcome: Outcome::HandedOut,
            }))
        });
        turn.steps.push(Step { parts: parts.collect(), ..Step::default() });
        turn.call_ids = turn.steps.iter().flat_map(Step::calls).count();
        if !has_opening {
            (turn.answer, turn.questions) = (None, Vec::new());
        }
        if is_asking && !turn.questions.is_empty() {
            turn.ending = Some(Ending::Completed(TurnFinish::ClarificationNeeded));
        }
        turn
    })
}

fn any_chance() -> impl Strategy<Value = Chance> {
    (prop::collection::vec(any_hidden_turn(), 0..4), any::<u8>()).prop_map(|(turns, salt)| {
        let named = |(at, turn)| Arc::new(Turn { turn_id: format!("t{at}"), ..turn });
        Chance { turns: turns.into_iter().enumerate().map(named).collect(), salt }
    })
}

/// Every call has an id of its own, and no outcome that only we could know.
fn check_calls(adopted: &Adopted, lookup: &[Arc<Turn>]) -> Result<(), TestCaseError> {
    let mut ids = HashSet::new();
    let ours = lookup.iter().flat_map(|turn| &turn.steps).flat_map(Step::calls);
    let ours: Vec<&Outcome> = ours.map(|call| &call.outcome).collect();
    for turn in adopted.history.turns() {
        for call in turn.steps.iter().flat_map(Step::calls) {
            prop_assert!(ids.insert(&*call.call_id), "{} is used twice", call.call_id);
            let number: usize = call.call_id.strip_prefix("call_").unwrap().parse().unwrap();
            prop_assert!((1..=adopted.history.call_ids()).contains(&number));
            let is_clients = matches!(
                call.outcome,
                Outcome::Claimed(_) | Outcome::Skipped(_) | Outcome::HandedOut
            );
            let is_ours = !turn.turn_id.is_empty() && ours.contains(&&call.outcome);
            prop_assert!(is_clients || is_ours, "{call:?}");
        }
    }
    Ok(())
}

fn check_rendered(adopted: &Adopted, form: History) -> Result<String, TestCaseError> {
    let messages = rendered(adopted, form);
    if let Err(wrong) = check_sequence(&messages) {
        prop_assert!(false, "{wrong}\n{messages:#?}");
    }
    Ok(read(&messages))
}

proptest! {
    #[test]
    fn no_word_is_lost(messages in any_list()) {
        let Ok(adopted) = adopt(messages.clone(), "key", &Shelf::default()) else {
            let says = |it: &ClaimedMessage| !matches!(it, ClaimedMessage::System(_));
            prop_assert!(words(&messages, says).is_empty());
            return Ok(());
        };
        check_calls(&adopted, &[])?;
        let is_result = |it: &ClaimedMessage| matches!(it, ClaimedMessage::Result { .. });
        for form in [History::Text, History::Native] {
            let read = check_rendered(&adopted, form)?;
            for word in words(&messages, |message| !is_result(message)) {
                prop_assert!(read.contains(&word), "{word} is missing in {read}");
            }
            // Only second results may be missing.
            let results = words(&messages, is_result);
            let lost = results.iter().filter(|word| !read.contains(word.as_str())).count();
            let dropped = adopted.repairs.of(Repair::DuplicateResult);
            prop_assert!(lost <= usize::try_from(dropped).unwrap(), "{results:?} in {read}");
        }
    }

    #[test]
    fn with_turns_of_ours_the_sequence_stays_valid(
        messages in any_list(),
        lookup in any_chance(),
    ) {
        let Ok(adopted) = adopt(messages.clone(), "key", &lookup) else { return Ok(()) };
        check_calls(&adopted, &lookup.turns)?;
        // An answer that opened a turn of ours is told in our words.
        let has_answer = adopted.history.turns().any(|turn| turn.answer.is_some());
        for form in [History::Text, History::Native] {
            let read = check_rendered(&adopted, form)?;
            for word in words(&messages, |it| matches!(it, ClaimedMessage::User(_))) {
                prop_assert!(has_answer || read.contains(&word), "{word} is missing in {read}");
            }
        }
    }

    #[test]
    fn a_list_without_faults_is_adopted_as_it_is(
        turns in prop::collection::vec((0..3_usize, any::<bool>()), 1..8),
    ) {
        let mut messages = Vec::new();
        for (at, (rounds, has_text)) in turns.iter().enumerate() {
            messages.push(user(&format!("u{at}")));
            for round in 0..*rounds {
                let id = format!("{at}.{round}");
                messages.push(calls(if *has_text { "Wait." } else { "" }, &[&id]));
                messages.push(returns(&id, "{}"));
            }
            messages.push(says(&format!("a{at}")));
        }
        messages.push(user("end"));
        let adopted = adopted(messages);
        prop_assert_eq!(adopted.repairs, Repairs::default());
        prop_assert_eq!(adopted.history.turns().len(), turns.len());
        let rounds: usize = turns.iter().map(|(rounds, _)| rounds).sum();
        prop_assert_eq!(adopted.history.call_ids(), rounds);
    }
}

/// A list of many messages, or of one that is long, is one pass.
#[test]
fn a_list_as_large_as_a_request_is_adopted() {
    let many = 20_000;
    let ids: Vec<String> = (0..many).map(|at| at.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    let results = ids.iter().map(|id| returns(id, "1"));
    let one = [user("?"), calls("", &ids)].into_iter().chain(results).collect();
    let ClientInput::Results(returned) = adopted(one).input else {
        panic!("results open the turn")
    };
    assert_eq!(returned.len(), HISTORY_CALLS_MAX);

    let same = (0..many).flat_map(|_| [calls("", &["a"]), returns("a", "1")]);
    let adopted_same = adopted([user("?")].into_iter().chain(same).collect());
    assert_eq!(adopted_same.history.call_ids(), HISTORY_CALLS_MAX);
    for form in [History::Text, History::Native] {
        assert!(rendered(&adopted_same, form).len() > HISTORY_CALLS_MAX / 2);
    }

    // Five times as many: in quadratic time, nobody would wait for the end.
    let replies = (0..5 * many).map(|_| says("So."));
    let adopted_replies = adopted([user("?")].into_iter().chain(replies).collect());
    assert_eq!(rendered(&adopted_replies, History::Text).len(), 4);

    for unit in ["<details ", "<details \"", "<details type=\"tool_calls\">", "<", "</details>"] {
        let text = unit.repeat((1 << 20) / unit.len());
        assert_eq!(adopted(vec![user("?"), says(&text)]).history.turns().len(), 1);
    }
}
