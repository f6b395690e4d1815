//! Turns of our own behind a client's messages.

use super::*;
use crate::conversation::{
    Answer, Conversation, Ending, Given, Opening, Question, Step, Utterance, UtteranceKind,
};
use crate::event::TurnFinish;
use crate::parser::Arguments;
use crate::tools::{Clarification, Continuation, Source};

pub(super) fn call(number: usize, name: &str, outcome: Outcome) -> Part {
    let (call_id, name) = (format!("call_{number}"), name.to_owned());
    let arguments = Arguments::parse("{}").unwrap();
    Part::Call(Arc::new(Call { call_id, name, arguments, resolved_arguments: None, outcome }))
}

pub(super) fn ended(number: usize) -> Part {
    call(number, "secret", Outcome::Ended(ToolResult::data(serde_json::json!(number))))
}

pub(super) fn words(text: &str) -> Part {
    Part::Text(text.to_owned())
}

pub(super) fn turn(id: &str, call_ids: usize, steps: &[&[Part]], finish: TurnFinish) -> Turn {
    let step = |parts: &&[Part]| Step { parts: parts.to_vec(), ..Step::default() };
    Turn {
        turn_id: id.to_owned(),
        prompt: "?".to_owned(),
        steps: steps.iter().map(step).collect(),
        call_ids,
        ending: Some(Ending::Completed(finish)),
        ..Turn::default()
    }
}

/// A turn that ran a call of its own and then handed out `look` as `call_N`.
fn handing_out(number: usize) -> Turn {
    let last = [words("One moment."), call(number, "look", Outcome::HandedOut)];
    turn("waits", 2, &[&[ended(number - 1)], &last], TurnFinish::ClientToolCalls)
}

impl Shelf {
    /// Keeps a turn as a server does once it has ended.
    fn keep(&mut self, request: &Adopted, shown: &str, turn: Turn, handed_out: &[(&str, &str)]) {
        let turn = Arc::new(turn);
        self.by_prefix.insert(request.prefix.then("assistant", shown), Arc::clone(&turn));
        self.hand_out(&turn, handed_out);
    }

    pub(super) fn hand_out(&mut self, turn: &Arc<Turn>, handed_out: &[(&str, &str)]) {
        for (client_call_id, call_id) in handed_out {
            let (turn, call_id) = (Arc::clone(turn), (*call_id).to_owned());
            self.by_call.insert((*client_call_id).to_owned(), FoundCall { turn, call_id });
        }
    }

    #[track_caller]
    pub(super) fn check(&self, messages: &[ClaimedMessage], expected: &[&str]) -> Adopted {
        let adopted = adopt(messages.to_vec(), "key", self).unwrap();
        assert_eq!(outline(&adopted), expected);
        for form in [History::Text, History::Native] {
            crate::conversation::render::sequence::check_sequence(&rendered(&adopted, form))
                .unwrap();
        }
        adopted
    }
}

/// A whole conversation, as it grows with each request.
#[test]
fn a_turn_is_found_by_what_the_client_was_shown() {
    let mut shelf = Shelf::default();
    let mut messages = vec![system("Be brief."), user("What time is it?")];
    let request = shelf.check(&messages, &["system: Be brief.", "asks: What time is it?"]);
    let steps: [&[Part]; 2] = [&[ended(1)], &[words("Noon.")]];
    shelf.keep(&request, "Noon.\n", turn("t1", 1, &steps, TurnFinish::Stop), &[]);

    messages.extend([says("Noon."), user("Look.")]);
    let so_far =
        ["system: Be brief.", "user: What time is it?", "call_1: secret {} ended 1", "says: Noon."];
    let request = shelf.check(&messages, &[&so_far[..], &["asks: Look."]].concat());
    shelf.keep(&request, "One moment.", handing_out(3), &[("abc", "call_3")]);

    messages.extend([calls("One moment.", &["abc"]), returns("abc", "7")]);
    let looked = ["user: Look.", "call_2: secret {} ended 2", "says: One moment."];
    let request = shelf.check(
        &messages,
        &[&so_far[..], &looked, &["call_3: look {} HandedOut", r#"returns: call_3 {"text":"7"}"#]]
            .concat(),
    );
    let Opening::Results(mut continued) = request.history.open(&request.input, |_| false).unwrap()
    else {
        panic!("results open the turn");
    };
    *continued = continued.going_on("t3".to_owned());
    continued.steps.push(Step { parts: vec![ended(4), words("Seven.")], ..Step::default() });
    continued.call_ids += 1;
    continued.ending = Some(Ending::Completed(TurnFinish::Stop));
    shelf.keep(&request, "Seven.", *continued, &[]);

    messages.extend([says("Seven."), user("Thanks.")]);
    let seven = ["call_4: secret {} ended 4", "says: Seven.", "asks: Thanks."];
    shelf.check(
        &messages,
        &[&so_far[..], &looked, &[r#"call_3: look {} claimed {"text":"7"}"#], &seven].concat(),
    );
}

#[test]
fn a_turn_is_nobody_elses() {
    let mut shelf = Shelf::default();
    let request = shelf.check(&[user("?")], &["asks: ?"]);
    shelf.keep(&request, "So.", turn("t", 1, &[&[ended(1)]], TurnFinish::Stop), &[]);
    let messages = vec![user("?"), says("So."), user("!")];
    let expected = ["user: ?", "says: So.", "asks: !"];
    assert_eq!(outline(&adopt(messages.clone(), "other", &shelf).unwrap()), expected);
    shelf.check(&messages, &["user: ?", "call_1: secret {} ended 1", "asks: !"]);
    shelf.check(
        &[user("Edited?"), says("So."), user("!")],
        &["user: Edited?", "says: So.", "asks: !"],
    );
}

/// The user edits the prompt, so only the call's id is left to find the turn by.
#[test]
fn a_turn_is_found_by_the_ids_of_its_calls() {
    let mut shelf = Shelf::default();
    shelf.hand_out(&Arc::new(handing_out(2)), &[("abc", "call_2")]);
    let called = calls("One \n moment.", &["abc"]);
    let restored = ["user: Edited.", "call_1: secret {} ended 1", "says: One moment."];
    let claimed = r#"call_2: look {} claimed {"text":"7"}"#;
    let beginning = [user("Edited."), called.clone(), returns("abc", "7")];
    let with = |more: &[ClaimedMessage]| [&beginning[..], more].concat();
    shelf.check(
        &with(&[]),
        &[&restored[..], &["call_2: look {} HandedOut", r#"returns: call_2 {"text":"7"}"#]]
            .concat(),
    );
    shelf.check(
        &with(&[says("Seven."), user("!")]),
        &[&restored[..], &[claimed, "says: Seven.", "asks: !"]].concat(),
    );
    shelf.check(
        &with(&[calls("", &["def"]), returns("def", "8")]),
        &[
            &restored[..],
            &[claimed, "call_3: look {} HandedOut", r#"returns: call_3 {"text":"8"}"#],
        ]
        .concat(),
    );
    shelf.check(
        &[user("Edited."), called, user("!")],
        &[&restored[..], &["call_2: look {} skipped: the conversation went on", "asks: !"]]
            .concat(),
    );
}

/// A tool that ended while the model wrote has cut a word in two, and the gateway has answered for the model.
#[test]
fn a_turn_is_found_whoever_said_its_words_and_wherever_they_are_cut() {
    let mut shelf = Shelf::default();
    let (kind, text) = (UtteranceKind::Response, "It is 7.".to_owned());
    let answer = Part::Said(Utterance { kind, text, tools: Vec::new(), at_ms: 0 });
    let steps: [&[Part]; 2] = [&[words("One moment."), ended(1)], &[answer]];
    shelf.hand_out(&Arc::new(turn("t", 1, &steps, TurnFinish::Stop)), &[("abc", "call_1")]);
    let shown = ClaimedCall { name: "secret".to_owned(), ..claimed_call("abc", "{}") };
    let text = "One mo\n\nment.".to_owned();
    let called = ClaimedMessage::Assistant { text, calls: vec![shown] };
    let list = [user("?"), called, returns("abc", "1"), says("It is 7."), user("!")];
    let adopted = adopt(list.to_vec(), "key", &shelf).unwrap();
    let turns: Vec<_> = adopted.history.turns().collect();
    assert_eq!((turns.len(), turns[0].steps.len()), (1, 2), "{turns:?}");
}

/// The client kept another answer than the one that came last.
#[test]
fn a_word_within_another_one_is_not_said() {
    let said = [words("It is 17. Who kno"), ended(1), words("ws that?")];
    let turn = turn("t", 1, &[&said], TurnFinish::Stop);
    for (texts, count) in [
        (&["7."][..], 0),
        (&["17"], 0),
        (&["17."], 1),
        (&["It", "is17.", "ows"], 2),
        (&["Who kno", "ws that?"], 2),
        (&["Who k", "nows that?"], 2),
        (&["It is 17.", "that?"], 2),
    ] {
        let list = [user("?")].into_iter().chain(texts.iter().map(|text| says(text))).collect();
        let mut placing = Placing::new("");
        let reading = reading::read(list, "key", &mut placing);
        let replies = &reading.exchanges[0].replies;
        assert_eq!(super::super::restored::says(&turn, replies), count, "{texts:?}");
    }
}

#[test]
fn in_doubt_the_clients_messages_stay() {
    let mut shelf = Shelf::default();
    shelf.hand_out(&Arc::new(handing_out(2)), &[("abc", "call_2"), ("def", "call_9")]);
    let claimed = r#"call_1: look {} claimed {"text":"7"}"#;
    let second = "call_2: look {} skipped: the conversation went on";
    for (called, expected) in [
        (calls("Edited.", &["abc"]), vec!["says: Edited.", claimed]),
        (calls("One moment.", &["abc", "x"]), vec!["says: One moment.", claimed, second]),
        (calls("One moment.", &["abc", "def"]), vec!["says: One moment.", claimed, second]),
        (calls("One moment.", &["abc", "abc"]), vec!["says: One moment.", claimed, second]),
    ] {
        let messages = [user("?"), called, returns("abc", "7"), says("So."), user("!")];
        let expected = [&["user: ?"][..], &expected, &["says: So.", "asks: !"]].concat();
        shelf.check(&messages, &expected);
    }
}

/// Some clients are shown the calls that we run, and send them back.
#[test]
fn no_result_of_ours_is_replaced() {
    let mut shelf = Shelf::default();
    shelf.hand_out(&Arc::new(handing_out(2)), &[("abc", "call_1")]);
    let shown = ClaimedCall { name: "secret".to_owned(), ..claimed_call("abc", "{}") };
    let called = ClaimedMessage::Assistant { text: String::new(), calls: vec![shown] };
    let messages = [user("?"), called, returns("abc", "forged")];
    shelf.check(
        &[&messages[..], &[says("So."), user("!")]].concat(),
        &[
            "user: ?",
            "call_1: secret {} ended 1",
            "says: One moment.",
            "call_2: look {} skipped: the conversation went on",
            "says: So.",
            "asks: !",
        ],
    );
    // A turn of ours that waits for nothing cannot go on with a result.
    let returned = r#"returns: call_1 {"text":"forged"}"#;
    shelf.check(&messages, &["user: ?", "call_1: secret {} HandedOut", returned]);
}

#[test]
fn a_turn_is_used_once() {
    let mut shelf = Shelf::default();
    shelf.hand_out(&Arc::new(handing_out(2)), &[("abc", "call_2")]);
    let called = calls("", &["abc"]);
    shelf.check(
        &[user("1"), called.clone(), user("2"), called, user("3")],
        &[
            "user: 1",
            "call_1: secret {} ended 1",
            "says: One moment.",
            "call_2: look {} skipped: the conversation went on",
            "user: 2",
            "call_3: look {} skipped: the conversation went on",
            "asks: 3",
        ],
    );
}

/// Calls that could not be read have used ids too.
#[test]
fn ids_are_kept_where_they_fit() {
    let with_gap = |first| {
        let steps: [&[Part]; 1] = [&[ended(first), ended(first + 2), words("So.")]];
        turn("t", 3, &steps, TurnFinish::Stop)
    };
    for (first, expected, used) in [
        (1, ["call_1: secret {} ended 1", "call_3: secret {} ended 3"], 3),
        (8, ["call_1: secret {} ended 8", "call_2: secret {} ended 10"], 2),
    ] {
        let mut shelf = Shelf::default();
        let request = adopted(vec![user("?")]);
        shelf.keep(&request, "So.", with_gap(first), &[]);
        let adopted = shelf.check(
            &[user("?"), says("So."), user("!")],
            &[&["user: ?"][..], &expected, &["says: So.", "asks: !"]].concat(),
        );
        assert_eq!(adopted.history.call_ids(), used);
    }
}

#[test]
fn references_follow_renumbered_calls() {
    let parse = |text| Arguments::parse(text).unwrap();
    let referring = Call {
        call_id: "call_6".to_owned(),
        name: "secret".to_owned(),
        arguments: parse(r#"{"to":{"$result":"call_5.id"}}"#),
        resolved_arguments: Some(parse(r#"{"to":7}"#)),
        outcome: Outcome::Ended(ToolResult::data(serde_json::json!({}))),
    };
    let mut shelf = Shelf::default();
    let steps: [&[Part]; 1] = [&[ended(5), Part::Call(Arc::new(referring)), words("So.")]];
    shelf.keep(&adopted(vec![user("?")]), "So.", turn("t", 2, &steps, TurnFinish::Stop), &[]);
    shelf.check(
        &[user("?"), says("So."), user("!")],
        &[
            "user: ?",
            "call_1: secret {} ended 5",
            r#"call_2: secret {"to":{"$result":"call_1.id"}} ended {}"#,
            "says: So.",
            "asks: !",
        ],
    );
}

pub(super) fn asking(number: usize) -> Turn {
    let question = Question {
        clarification_id: "t1.1".to_owned(),
        call_id: format!("call_{number}"),
        tool_name: "secret".to_owned(),
        source: Source::default(),
        clarification: Clarification {
            r#type: "text".to_owned(),
            question: "Which?".to_owned(),
            ..Clarification::default()
        },
        arguments: None,
        continuation: Continuation::default(),
    };
    let asking = turn("t1", 1, &[&[ended(number)]], TurnFinish::ClarificationNeeded);
    Turn { questions: vec![question], ..asking }
}

#[test]
fn a_question_stays_open_until_the_user_has_spoken() {
    let mut shelf = Shelf::default();
    shelf.keep(&adopted(vec![user("?")]), "Which?", asking(5), &[]);
    let messages = [user("?"), says("Which?"), user("This.")];
    let restored = ["user: ?", "call_1: secret {} ended 5"];
    let request = shelf.check(&messages, &[&restored[..], &["asks: This."]].concat());
    let [open] = request.history.open_questions() else { panic!("it was asked") };
    assert_eq!((&*open.clarification_id, &*open.call_id), ("t1.1", "call_1"));
    let opening = request.history.open(&request.input, |_| false).unwrap();
    assert!(matches!(opening, Opening::Answer(_)), "the words answer it");
    // Nobody has answered if the assistant is to go on.
    let goes_on = shelf.check(
        &messages[..2],
        &[&restored[..], &["asks: Go on exactly where you stopped. Do not repeat anything."]]
            .concat(),
    );
    assert_eq!(goes_on.input, ClientInput::Prompt(CONTINUE.to_owned()));

    let answer = |id: &str| {
        let (clarification_id, question) = (id.to_owned(), "Which?".to_owned());
        let given = Given::Text("This.".to_owned());
        Some(Box::new(Answer {
            clarification_id,
            question,
            given,
            not_chosen: Vec::new(),
            beside: None,
        }))
    };
    for (id, is_kept) in [("t1.1", true), ("t0.1", false)] {
        let answered = turn("t2", 0, &[&[words("So.")]], TurnFinish::Stop);
        let mut shelf = Shelf { by_prefix: shelf.by_prefix.clone(), ..Shelf::default() };
        shelf.keep(&request, "So.", Turn { answer: answer(id), ..answered }, &[]);
        let messages = [&messages[..], &[says("So."), user("!")]].concat();
        let expected = [&restored[..], &["user: This.", "says: So.", "asks: !"]].concat();
        let adopted = shelf.check(&messages, &expected);
        let last = adopted.history.turns().next_back().unwrap();
        assert_eq!(last.answer.is_some(), is_kept, "{id}");
    }
}

/// Turns that continue others must not take the place of what comes before them here.
#[test]
fn a_continued_turn_replaces_nothing() {
    let mut shelf = Shelf::default();
    let continued = turn("t", 1, &[&[ended(1), words("So.")]], TurnFinish::Stop);
    let request = adopted(vec![user("Hi."), says("Hello."), user("?")]);
    shelf.keep(&request, "So.", Turn { continues: true, ..continued }, &[]);
    let adopted = shelf.check(
        &[user("Hi."), says("Hello."), user("?"), says("So."), user("!")],
        &[
            "user: Hi.",
            "says: Hello.",
            "user: ?",
            "call_1: secret {} ended 1",
            "says: So.",
            "asks: !",
        ],
    );
    assert_eq!(Conversation::turns(&adopted.history).len(), 2);
}

fn calling(arguments: &str, outcome: Outcome) -> Part {
    let arguments = Arguments::parse(arguments).unwrap();
    let (call_id, name) = ("call_1".to_owned(), "look".to_owned());
    Part::Call(Arc::new(Call { call_id, name, arguments, resolved_arguments: None, outcome }))
}

/// The user asks, the model calls, the user asks again in the same words, and it calls another.
fn asked_twice() -> (Shelf, Adopted) {
    let mut shelf = Shelf::default();
    let request = adopted(vec![user("?")]);
    for (id, arguments) in [("t1", r#"{"at":"a"}"#), ("t2", r#"{"at":"b"}"#)] {
        let steps: [&[Part]; 1] = [&[calling(arguments, Outcome::HandedOut)]];
        let turn = turn(id, 1, &steps, TurnFinish::ClientToolCalls);
        shelf.keep(&request, "", turn, &[(id, "call_1")]);
    }
    (shelf, request)
}

fn looks(id: &str, arguments: &str) -> ClaimedMessage {
    let calls = vec![claimed_call(id, arguments)];
    ClaimedMessage::Assistant { text: String::new(), calls }
}

#[test]
fn two_turns_with_the_same_prefix_keep_their_own_results() {
    let (mut shelf, _) = asked_twice();
    for (id, arguments) in [("t1", r#"{"at":"a"}"#), ("t2", r#"{"at":"b"}"#)] {
        let list = [user("?"), looks(id, arguments), returns(id, "7")];
        let call = format!("call_1: look {arguments} HandedOut");
        let expected = ["user: ?", &*call, r#"returns: call_1 {"text":"7"}"#];
        let request = shelf.check(&list, &expected);
        assert_eq!(request.history.turns().last().unwrap().turn_id, id, "the turn is ours");
        let opening = request.history.open(&request.input, |_| false).unwrap();
        let Opening::Results(turn) = opening else { panic!("results open it") };
        // Both go on in the same words, so that both have the same prefix again.
        let mut turn = turn.going_on(format!("{id}, on"));
        turn.steps.push(Step { parts: vec![words("So.")], ..Step::default() });
        turn.ending = Some(Ending::Completed(TurnFinish::Stop));
        shelf.keep(&request, "So.", turn, &[]);
    }
    let (id, arguments) = ("t1", r#"{"at":"a"}"#);
    let list = [user("?"), looks(id, arguments), returns(id, "7"), says("So."), user("!")];
    let claimed = r#"call_1: look {"at":"a"} claimed {"text":"7"}"#;
    shelf.check(&list, &["user: ?", claimed, "says: So.", "asks: !"]);
}

/// A turn that went on has other ids if those before it were used.
#[test]
fn results_find_their_calls_under_other_ids() {
    let (mut shelf, _) = asked_twice();
    let before = [user("Hi."), calls("", &["x"]), returns("x", "1"), says("Hello.")];
    let list = [&before[..], &[user("?"), looks("t1", r#"{"at":"a"}"#)]].concat();
    let before = ["user: Hi.", r#"call_1: look {} claimed {"text":"1"}"#, "says: Hello."];
    let call = r#"call_2: look {"at":"a"} "#;
    let returned = [&list[..], &[returns("t1", "7")]].concat();
    let request = shelf.check(
        &returned,
        &[
            &before[..],
            &["user: ?", &format!("{call}HandedOut"), r#"returns: call_2 {"text":"7"}"#],
        ]
        .concat(),
    );
    let opening = request.history.open(&request.input, |_| false).unwrap();
    let Opening::Results(turn) = opening else { panic!("results open it") };
    let mut turn = turn.going_on("t3".to_owned());
    let second = call_part(3);
    turn.steps.push(Step { parts: vec![ended(4), second], ..Step::default() });
    turn.call_ids = 3;
    turn.ending = Some(Ending::Completed(TurnFinish::ClientToolCalls));
    shelf.hand_out(&Arc::new(turn), &[("t3", "call_3")]);
    shelf.by_prefix.clear();
    let all = [&returned[..], &[calls("", &["t3"]), returns("t3", "8")]].concat();
    let adopted = adopt(all, "key", &shelf).unwrap();
    let told = outline(&adopted);
    assert!(told.contains(&format!("{call}claimed {{\"text\":\"7\"}}")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("secret")), "{told:?}");
    assert!(told.last().unwrap().ends_with(r#"{"text":"8"}"#), "{told:?}");
}

fn call_part(number: usize) -> Part {
    call(number, "look", Outcome::HandedOut)
}

/// Its siblings of ours stay.
#[test]
fn the_users_arguments_take_the_place_of_the_models() {
    for (told, restored) in [
        (r#"{"at":"edited"}"#, r#"{"at":"edited"}"#),
        ("{}", "{}"),
        (r#"{ "n": 1, "at": "a" }"#, r#"{"at":"a","n":1.0}"#),
    ] {
        let look = calling(r#"{"at":"a","n":1.0}"#, Outcome::HandedOut);
        let lookup = call(2, "secret", Outcome::Ended(ToolResult::data(serde_json::json!(2))));
        let steps: [&[Part]; 1] = [&[look, lookup]];
        let turn = turn("t1", 2, &steps, TurnFinish::ClientToolCalls);
        let mut shelf = Shelf::default();
        shelf.keep(&adopted(vec![user("?")]), "", turn, &[("t1", "call_1")]);
        shelf.check(
            &[user("?"), looks("t1", told), returns("t1", "7")],
            &[
                "user: ?",
                &format!("call_1: look {restored} HandedOut"),
                "call_2: secret {} ended 2",
                r#"returns: call_1 {"text":"7"}"#,
            ],
        );
    }
}

/// A turn that does not fit may still be found in another way.
#[test]
fn a_turn_is_used_only_if_it_fits() {
    let (mut shelf, request) = asked_twice();
    let first = Arc::clone(&shelf.by_call["t1"].turn);
    // It waits, but the client says that it went on from another.
    shelf.by_prefix.insert(request.prefix.then("assistant", ""), Arc::clone(&first));
    let second = looks("t2", r#"{"at":"b"}"#);
    let list = [user("?"), second, user("?"), looks("t1", r#"{"at":"a"}"#), user("!")];
    let adopted = adopt(list.to_vec(), "key", &shelf).unwrap();
    let ids: Vec<_> = adopted.history.turns().map(|turn| turn.turn_id.clone()).collect();
    assert_eq!(ids, ["t2", "t1"]);
}

#[test]
fn words_beside_results_stay_with_their_step() {
    let (mut shelf, _) = asked_twice();
    let said = ClaimedMessage::Aside("Be quick.".into());
    let arguments = r#"{"at":"b"}"#;
    let mut list = vec![user("?"), looks("t2", arguments), returns("t2", "7"), said];
    let request = adopt(list.clone(), "key", &shelf).unwrap();
    let opening = request.history.open(&request.input, |_| false).unwrap();
    let Opening::Results(turn) = opening else { panic!("results open it") };
    assert_eq!(turn.turn_id, "t2");
    assert_eq!(turn.steps[0].aside, "Be quick.");
    let mut turn = turn.going_on("t3".to_owned());
    turn.steps.push(Step { parts: vec![ended(2), words("So.")], ..Step::default() });
    turn.call_ids = 2;
    turn.ending = Some(Ending::Completed(TurnFinish::Stop));
    shelf.keep(&request, "So.", turn, &[]);
    list.extend([says("So."), user("!")]);
    let adopted = adopt(list, "key", &shelf).unwrap();
    let turn = adopted.history.turns().last().unwrap();
    assert_eq!((&*turn.turn_id, &*turn.steps[0].aside), ("t3", "Be quick."));
}

/// A list that names a long turn again and again, each time with words that the turn does not say.
#[test]
fn a_turn_that_does_not_fit_is_not_compared_forever() {
    let long = "word ".repeat(100_000);
    let call = call(1, "look", Outcome::HandedOut);
    let turn = turn("t", 1, &[&[words(&long), call]], TurnFinish::ClientToolCalls);
    let mut shelf = Shelf::default();
    shelf.hand_out(&Arc::new(turn), &[("abc", "call_1")]);
    let allocated = |exchanges: usize| {
        let named = (0..exchanges).flat_map(|_| [user("?"), calls("Other.", &["abc"])]);
        let list: Vec<_> = named.chain([user("!")]).collect();
        allocation_counter::measure(|| drop(adopt(list, "key", &shelf))).bytes_total
    };
    let [few, many] = [50, 200].map(allocated);
    assert!(many < 2 * few, "{few} bytes for 50 exchanges, {many} for 200");
}
