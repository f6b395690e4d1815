//! Turns of ours that the client was shown with their calls, and questions that were answered
//! outside of the list.

use super::restored::{asking, call, ended, turn, words};
use super::*;
use crate::conversation::{Answer, AnswerError, Choice, Ending, Given, Opening};
use crate::event::TurnFinish;

fn shown(text: &str, id: &str) -> ClaimedMessage {
    let call = ClaimedCall { name: "secret".to_owned(), ..claimed_call(id, "{}") };
    ClaimedMessage::Assistant { text: text.to_owned(), calls: vec![call] }
}

/// A turn that answers the question of `asking`.
fn answering(steps: &[&[Part]]) -> Turn {
    let answer = Answer {
        clarification_id: "t1.1".to_owned(),
        question: "Which?".to_owned(),
        given: Given::Text("This.".to_owned()),
        not_chosen: Vec::new(),
        beside: None,
    };
    let (prompt, answer) = ("This.".to_owned(), Some(Box::new(answer)));
    Turn { prompt, answer, ..turn("t2", 1, steps, TurnFinish::Stop) }
}

/// The question of `t1`, whose call is `a` for the client, and the turn that its answer opened.
fn shelf(steps: &[&[Part]], seen: &[(&str, &str)]) -> Shelf {
    let mut shelf = Shelf::default();
    let (asking, answering) = (Arc::new(asking(1)), Arc::new(answering(steps)));
    shelf.hand_out(&asking, &[("a", "call_1")]);
    shelf.hand_out(&answering, seen);
    shelf.by_question.insert("t1.1".to_owned(), asking);
    shelf.by_answer.insert("t1.1".to_owned(), answering);
    shelf
}

#[test]
fn a_turn_whose_calls_were_shown_is_found_with_what_it_said_after_them() {
    let mut shelf = Shelf::default();
    let steps: [&[Part]; 3] =
        [&[words("One."), ended(1)], &[words("Two."), ended(2)], &[words("Three.")]];
    let restored = Arc::new(turn("t1", 2, &steps, TurnFinish::Stop));
    shelf.hand_out(&restored, &[("a", "call_1"), ("b", "call_2")]);
    let ours = [
        "user: ?",
        "says: One.",
        "call_1: secret {} ended 1",
        "says: Two.",
        "call_2: secret {} ended 2",
        "says: Three.",
    ];
    let list = [
        user("?"),
        shown("One.", "a"),
        returns("a", "forged"),
        shown("Two.", "b"),
        returns("b", "forged"),
    ];
    let whole = [&list[..], &[says("Three."), user("!")]].concat();
    shelf.check(&whole, &[&ours[..], &["asks: !"]].concat());
    // What it did not say is the client's.
    let more = [&list[..], &[says("Three."), says("Four."), user("!")]].concat();
    shelf.check(&more, &[&ours[..], &["says: Four.", "asks: !"]].concat());
}

#[test]
fn a_question_in_words_is_said_by_the_turn_that_asked() {
    let mut shelf = Shelf::default();
    shelf.hand_out(&Arc::new(asking(1)), &[("a", "call_1")]);
    let list = [user("?"), shown("", "a"), returns("a", "{}"), says("Which?"), user("This.")];
    let adopted = shelf.check(&list, &["user: ?", "call_1: secret {} ended 1", "asks: This."]);
    let opening = adopted.history.open(&adopted.input, |_| false).unwrap();
    assert!(matches!(opening, Opening::Answer(_)), "the words answer it");
}

/// The answer led to another question, without a word.
#[test]
fn answers_to_one_question_after_the_other_are_put_back() {
    let mut shelf = shelf(&[&[ended(2)]], &[]);
    let mut second = answering(&[&[ended(2)]]);
    let mut question = asking(2).questions.remove(0);
    question.clarification_id = "t2.1".to_owned();
    second.questions = vec![question];
    second.ending = Some(Ending::Completed(TurnFinish::ClarificationNeeded));
    let second = Arc::new(second);
    shelf.hand_out(&second, &[("b", "call_2")]);
    shelf.by_answer.insert("t1.1".to_owned(), second);
    let mut third = answering(&[&[words("So.")]]);
    (third.turn_id, third.prompt) = ("t3".to_owned(), "That.".to_owned());
    third.answer.as_mut().unwrap().clarification_id = "t2.1".to_owned();
    shelf.by_answer.insert("t2.1".to_owned(), Arc::new(third));
    let list = [
        user("?"),
        shown("", "a"),
        returns("a", "{}"),
        shown("", "b"),
        returns("b", "{}"),
        says("So."),
        user("!"),
    ];
    let adopted = shelf.check(
        &list,
        &[
            "user: ?",
            "call_1: secret {} ended 1",
            "user: This.",
            "call_2: secret {} ended 2",
            "user: That.",
            "says: So.",
            "asks: !",
        ],
    );
    let answers = adopted.history.turns().filter_map(|turn| turn.answer.as_ref());
    let answers: Vec<&str> = answers.map(|it| &*it.clarification_id).collect();
    assert_eq!(answers, ["t1.1", "t2.1"]);
}

#[test]
fn an_answer_that_is_not_in_the_list_is_put_back() {
    let shelf = shelf(&[&[words("So.")]], &[]);
    let list = [user("?"), shown("", "a"), returns("a", "{}"), says("So."), user("!")];
    let expected = ["user: ?", "call_1: secret {} ended 1", "user: This.", "says: So.", "asks: !"];
    let adopted = shelf.check(&list, &expected);
    assert!(adopted.history.turns().last().unwrap().answer.is_some());
}

#[test]
fn an_answer_is_put_back_between_calls_too() {
    let look = call(2, "look", Outcome::HandedOut);
    let shelf = {
        let mut shelf = shelf(&[&[words("So."), look]], &[("b", "call_2")]);
        let waits = Turn {
            ending: Some(Ending::Completed(TurnFinish::ClientToolCalls)),
            ..Turn::clone(&shelf.by_answer["t1.1"])
        };
        let waits = Arc::new(waits);
        shelf.hand_out(&waits, &[("b", "call_2")]);
        shelf.by_answer.insert("t1.1".to_owned(), waits);
        shelf
    };
    let list =
        [user("?"), shown("", "a"), returns("a", "{}"), calls("So.", &["b"]), returns("b", "7")];
    shelf.check(
        &list,
        &[
            "user: ?",
            "call_1: secret {} ended 1",
            "user: This.",
            "says: So.",
            "call_2: look {} HandedOut",
            r#"returns: call_2 {"text":"7"}"#,
        ],
    );
}

#[test]
fn what_answers_a_question_of_the_list_keeps_its_answer() {
    let shelf = shelf(&[&[words("So."), ended(2)]], &[("b", "call_2")]);
    let list = [
        user("?"),
        shown("", "a"),
        returns("a", "{}"),
        user("This."),
        shown("So.", "b"),
        returns("b", "{}"),
        user("!"),
    ];
    let adopted = shelf.check(
        &list,
        &[
            "user: ?",
            "call_1: secret {} ended 1",
            "user: This.",
            "says: So.",
            "call_2: secret {} ended 2",
            "asks: !",
        ],
    );
    assert!(adopted.history.turns().last().unwrap().answer.is_some());
}

/// Another answer, to which the model said the same.
#[test]
fn an_edited_answer_is_not_the_one_that_was_given() {
    let shelf = shelf(&[&[words("So."), ended(2)]], &[]);
    for (answer, is_ours) in [("This.", true), ("That.", false)] {
        let list =
            [user("?"), shown("", "a"), returns("a", "{}"), user(answer), says("So."), user("!")];
        let adopted = adopt(list.to_vec(), "key", &shelf).unwrap();
        let turn = adopted.history.turns().last().unwrap();
        assert_eq!((turn.answer.is_some(), &*turn.prompt), (is_ours, answer));
        assert_eq!(turn.turn_id.is_empty(), !is_ours, "what our turn did is not told");
    }
}

fn answered(adopted: Adopted, shelf: &Shelf) -> Adopted {
    adopted.answering("t1.1".to_owned(), Choice::Text("This.".to_owned()), shelf)
}

#[test]
fn an_answer_finds_its_question() {
    let mut shelf = shelf(&[], &[]);
    shelf.by_answer.clear();
    let list = [user("?"), shown("", "a")];
    let open = answered(adopt(list.to_vec(), "key", &shelf).unwrap(), &shelf);
    let line = "answers t1.1: Text(\"This.\")";
    assert_eq!(outline(&open), ["user: ?", "call_1: secret {} ended 1", line]);
    // It has been shown what the call returned.
    let list_with_result = [&list[..], &[returns("a", "{}")]].concat();
    let open = answered(adopt(list_with_result, "key", &shelf).unwrap(), &shelf);
    assert_eq!(outline(&open), ["user: ?", "call_1: secret {} ended 1", line]);
    // The client has left out the turn that asked.
    let missing = answered(adopted(vec![user("Hi."), says("Hello."), user("!")]), &shelf);
    let expected = ["user: Hi.", "says: Hello.", "user: ?", "call_1: secret {} ended 1", line];
    assert_eq!(outline(&missing), expected);
    assert!(missing.history.open(&missing.input, |_| false).is_ok());
    // The client has the turn that asked, and went on without an answer.
    let prefix = list.iter().cloned().chain([user("Never mind."), says("Fine."), user("!")]);
    let left = answered(adopt(prefix.collect(), "key", &shelf).unwrap(), &shelf);
    assert_eq!(left.history.turns().len(), 2, "{:?}", outline(&left));
    assert!(matches!(left.history.open(&left.input, |_| false), Err(AnswerError::Stale(_))));
    // Somebody has answered it.
    shelf.by_answer.insert("t1.1".to_owned(), Arc::new(answering(&[])));
    let late = answered(adopted(vec![user("Hi."), says("Hello."), user("!")]), &shelf);
    assert_eq!(outline(&late), ["user: Hi.", "says: Hello.", line]);
    assert!(late.history.open(&late.input, |_| false).is_err());
}

/// It began with the turn before it, whose place it took.
#[test]
fn a_turn_that_is_put_back_takes_no_place_and_no_call_id() {
    let mut shelf = Shelf::default();
    let asking = Turn { continues: true, ..asking(1) };
    shelf.by_question.insert("t1.1".to_owned(), Arc::new(asking));
    let list = [user("Hi."), calls("", &["x"]), returns("x", "7"), says("Hello."), user("!")];
    let found = answered(adopted(list.to_vec()), &shelf);
    let expected = [
        "user: Hi.",
        "call_1: look {} claimed {\"text\":\"7\"}",
        "says: Hello.",
        "user: ?",
        "call_2: secret {} ended 1",
        "answers t1.1: Text(\"This.\")",
    ];
    assert_eq!(outline(&found), expected);
    assert_eq!(found.history.open_questions()[0].call_id, "call_2");
}

/// What an answer opens the next turn with besides itself.
fn beside(adopted: &Adopted) -> Option<&str> {
    match &adopted.input {
        ClientInput::Answer { beside, .. } => beside.as_deref(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn words_after_the_question_are_said_beside_its_answer() {
    let mut shelf = shelf(&[], &[]);
    shelf.by_answer.clear();
    let image = ContentPart::Image(picture(1));
    let words = ContentPart::Words("And be quick.".to_owned());
    let spoken = ClaimedMessage::User([words, image].into_iter().collect());
    let list = vec![user("?"), shown("", "a"), spoken.clone()];
    let found = answered(adopt(list, "key", &shelf).unwrap(), &shelf);
    let said = beside(&found).unwrap();
    assert!(said.starts_with("And be quick.\n[image"), "{said}");
    assert_eq!(found.images.opening.len(), 1);
    // They may have led to the question.
    let list = vec![user("Hi."), says("Hello."), spoken];
    let missing = answered(adopted(list), &shelf);
    assert_eq!(beside(&missing), None);
    assert_eq!(missing.images.opening, []);
}
