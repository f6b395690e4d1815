//! A table for each fault that lists have.

use super::*;
use crate::limits::tools::OUTPUT_BYTES_MAX;

#[track_caller]
fn check(messages: &[ClaimedMessage], expected: &[&str], repairs: &[(Repair, u32)]) {
    let adopted = adopted(messages.to_vec());
    assert_eq!(outline(&adopted), expected);
    assert_eq!(adopted.repairs.iter().collect::<Vec<_>>(), repairs);
    for form in [History::Text, History::Native] {
        crate::conversation::render::sequence::check_sequence(&rendered(&adopted, form)).unwrap();
    }
}

#[test]
fn a_proper_list_needs_no_repair() {
    check(
        &[
            system("Be brief."),
            user("Where?"),
            calls("One moment.", &["a", "b"]),
            returns("a", r#"{"city":"Oslo"}"#),
            returns("b", "It rains."),
            says("In Oslo."),
            user("And now?"),
        ],
        &[
            "system: Be brief.",
            "user: Where?",
            "says: One moment.",
            r#"call_1: look {} claimed {"city":"Oslo"}"#,
            r#"call_2: look {} claimed {"text":"It rains."}"#,
            "says: In Oslo.",
            "asks: And now?",
        ],
        &[],
    );
}

#[test]
fn results_of_the_last_calls_open_the_turn() {
    let asked = [user("Where?"), calls("", &["a", "b"]), returns("b", "[1]")];
    let waits = ["user: Where?", "call_1: look {} HandedOut", "call_2: look {} HandedOut"];
    let [asked_at, called, returned] = asked;
    check(
        &[asked_at.clone(), called.clone(), returned.clone(), returns("a", "2")],
        &[&waits[..], &[r#"returns: call_1 {"text":"2"}"#, "returns: call_2 [1]"]].concat(),
        &[],
    );
    let missing = "returns: call_1 error: not run: the client returned no result";
    check(
        &[asked_at.clone(), called.clone(), returned],
        &[&waits[..], &[missing, "returns: call_2 [1]"]].concat(),
        &[(Repair::MissingResult, 1)],
    );
    let skipped = "call_1: look {} skipped: the conversation went on";
    check(
        &[asked_at, called, says("Never mind.")],
        &[
            "user: Where?",
            skipped,
            &skipped.replace("call_1", "call_2"),
            "says: Never mind.",
            "asks: Go on exactly where you stopped. Do not repeat anything.",
        ],
        &[(Repair::MissingResult, 2)],
    );
}

#[test]
fn instructions_are_joined() {
    check(
        &[system("A"), system("B"), user("Hi."), says("Hello."), system("C"), user("Who?")],
        &["system: A\n\nB\n\nC", "user: Hi.", "says: Hello.", "asks: Who?"],
        &[(Repair::LateSystem, 1)],
    );
}

#[test]
fn empty_messages_are_dropped() {
    check(
        &[system(" "), user("Hi."), says("\n"), user(""), user("Hello?")],
        &["asks: Hi.\n\nHello?"],
        &[(Repair::EmptyMessage, 3), (Repair::SplitPrompt, 1)],
    );
    let block = "<details type=\"tool_calls\"></details>";
    check(
        &[user("Hi."), says(block), says(&format!("{block}\nHello.")), user("Who?")],
        &["user: Hi.", "says: Hello.", "asks: Who?"],
        &[(Repair::EmptyMessage, 1), (Repair::CallMarkup, 2)],
    );
}

#[test]
fn an_assistant_may_speak_first_and_last() {
    check(
        &[says("Hello."), user("Hi."), says("So?"), says("Well?")],
        &[
            "user: (The assistant speaks first.)",
            "says: Hello.",
            "user: Hi.",
            "says: So?",
            "says: Well?",
            "asks: Go on exactly where you stopped. Do not repeat anything.",
        ],
        &[(Repair::NoPrompt, 1)],
    );
}

#[test]
fn the_first_result_counts() {
    check(
        &[
            user("?"),
            calls("", &["a"]),
            returns("a", "1"),
            returns("a", "2"),
            says("1."),
            user("!"),
        ],
        &["user: ?", r#"call_1: look {} claimed {"text":"1"}"#, "says: 1.", "asks: !"],
        &[(Repair::DuplicateResult, 1)],
    );
}

#[test]
fn a_late_result_goes_to_its_call() {
    check(
        &[user("?"), calls("", &["a"]), says("Wait."), user("Well?"), returns("a", "1")],
        &["user: ?", r#"call_1: look {} claimed {"text":"1"}"#, "says: Wait.", "asks: Well?"],
        &[(Repair::LateResult, 1)],
    );
}

#[test]
fn a_result_of_an_id_used_twice_goes_to_the_nearest_call() {
    check(
        &[
            user("1"),
            calls("", &["a"]),
            user("2"),
            calls("", &["a", "a"]),
            returns("a", "first"),
            returns("a", "second"),
            says("So."),
            user("3"),
        ],
        &[
            "user: 1",
            "call_1: look {} skipped: the conversation went on",
            "user: 2",
            r#"call_2: look {} claimed {"text":"first"}"#,
            r#"call_3: look {} claimed {"text":"second"}"#,
            "says: So.",
            "asks: 3",
        ],
        &[(Repair::ReusedId, 2), (Repair::MissingResult, 1)],
    );
}

#[test]
fn a_result_without_a_call_becomes_words_of_the_user() {
    let note = "A result of a call that is not part of this conversation: 7";
    let stray = [(Repair::StrayResult, 1)];
    check(
        &[user("?"), says("So."), returns("x", "7"), user("Well?")],
        &["user: ?", "says: So.", &format!("asks: {note}\n\nWell?")],
        &stray,
    );
    check(&[user("?"), returns("x", "7")], &[&format!("asks: ?\n\n{note}")], &stray);
    check(&[returns("x", "7")], &[&format!("asks: {note}")], &stray);
    check(
        &[user("?"), says("So."), returns("x", "7")],
        &[
            "user: ?",
            "says: So.",
            &format!("asks: {note}\n\nGo on exactly where you stopped. Do not repeat anything."),
        ],
        &stray,
    );
    check(
        &[user("?"), calls("", &["a"]), returns("a", "1"), returns("x", "7")],
        &[
            &format!("user: ?\n\n{note}"),
            "call_1: look {} HandedOut",
            r#"returns: call_1 {"text":"1"}"#,
        ],
        &stray,
    );
    check(
        &[returns("x", "7"), says("So."), user("?")],
        &[&format!("user: {note}"), "says: So.", "asks: ?"],
        &[(Repair::NoPrompt, 1), (Repair::StrayResult, 1)],
    );
    check(
        &[user("?"), returns("x", "<|im_start|>")],
        &[&format!("asks: ?\n\n{}", note.replace('7', r"\u003c|im_start|>"))],
        &stray,
    );
}

#[test]
fn broken_arguments_stay_readable() {
    for (written, restored) in [
        ("", "{}"),
        (" ", "{}"),
        (r#"{"a": 1}"#, r#"{"a": 1}"#),
        (r#"{"a": 1"#, r#"{"...":"{\"a\": 1"}"#),
        ("[1]", r#"{"...":"[1]"}"#),
        (r#"{"a":1,"a":2}"#, r#"{"...":"{\"a\":1,\"a\":2}"}"#),
    ] {
        let broken = u32::from(restored.contains("..."));
        let calls = vec![claimed_call("a", written)];
        let called = ClaimedMessage::Assistant { text: String::new(), calls };
        let adopted = adopted(vec![user("?"), called, returns("a", "{}"), says("So."), user("!")]);
        assert_eq!(outline(&adopted)[1], format!("call_1: look {restored} claimed {{}}"));
        assert_eq!(adopted.repairs.of(Repair::BrokenArguments), broken, "{written}");
    }
}

/// What an output becomes.
fn result_of(output: &str, is_error: bool) -> ToolResult {
    let returned = ClaimedMessage::Result { call_id: "a".into(), output: output.into(), is_error };
    match adopted(vec![user("?"), calls("", &["a"]), returned]).input {
        ClientInput::Results(mut results) => results.remove(0).result,
        ask => panic!("{ask:?}"),
    }
}

#[test]
fn a_result_is_plain_data_whatever_it_claims() {
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    for (output, is_error, expected) in [
        ("[1, 2]", false, "[1,2]"),
        ("", false, r#"{"text":""}"#),
        ("7", false, r#"{"text":"7"}"#),
        (r#"{"success":true,"data":1}"#, false, r#"{"success":true,"data":1}"#),
        (&deep, false, &format!(r#"{{"text":"{deep}"}}"#)),
        ("no such place", true, "error: no such place"),
        (" ", true, "error: it failed without a reason"),
    ] {
        assert_eq!(outline_of_result(&result_of(output, is_error)), expected);
    }
    let question = r#"{"success":true,"next_action":"clarification_needed","clarification":{}}"#;
    assert_eq!(result_of(question, false).clarification, None);
}

#[test]
fn a_result_is_cut_at_its_limit() {
    let whole = OUTPUT_BYTES_MAX - crate::text::json_len(&result_of("", false));
    for (bytes, is_cut) in [(whole, false), (whole + 1, true)] {
        let result = result_of(&"x".repeat(bytes), false);
        assert_eq!(result.instruction_for_ai.is_some(), is_cut);
    }
}

#[test]
fn an_empty_list_has_nothing_to_answer() {
    assert_eq!(adopt(vec![], "key", &Shelf::default()).unwrap_err(), NothingToAnswer);
}

#[test]
fn a_list_without_words_has_a_stand_in_for_them() {
    for messages in [vec![system("Be brief.")], vec![user(" "), says("")], vec![returns("x", "")]] {
        let adopted = adopt(messages, "key", &Shelf::default()).unwrap();
        assert_eq!(adopted.input, ClientInput::Prompt("(The user has sent no words.)".to_owned()));
        assert_eq!(adopted.repairs.of(Repair::NoWords), 1);
    }
}

fn aside(text: &str) -> ClaimedMessage {
    ClaimedMessage::Aside(text.into())
}

/// What the model reads after the first call.
fn told_after_call(list: &[ClaimedMessage], form: History) -> String {
    let told = rendered(&adopted(list.to_vec()), form);
    let after = told.iter().skip_while(|message| message.role != crate::upstream::Role::Assistant);
    let said = after.skip(1).map(|message| {
        format!("{:?}: {}", message.role, message.text_content().unwrap_or_default())
    });
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn words_beside_results_end_no_turn() {
    let list = [user("?"), calls("", &["a"]), returns("a", "1"), aside("Be quick.")];
    check(&list, &["user: ?", "call_1: look {} HandedOut", r#"returns: call_1 {"text":"1"}"#], &[]);
    let text = told_after_call(&list, History::Text);
    let (result, aside) = (text.find("\"1\"").unwrap(), text.find("\n\nBe quick.").unwrap());
    assert!(result < aside && text.starts_with("User: "), "{text}");
    let native = told_after_call(&list, History::Native);
    assert!(native.ends_with("\n\nThe user adds: Be quick."), "{native}");
    // The task goes on with the next call.
    let more = [&list[..], &[calls("", &["b"]), returns("b", "2")]].concat();
    assert_eq!(adopted(more.clone()).history.turns().len(), 1);
    assert!(told_after_call(&more, History::Text).contains("Be quick."));
}

#[test]
fn words_beside_stray_results_are_a_prompt() {
    let stray = "A result of a call that is not part of this conversation: 7";
    check(
        &[user("?"), says("So."), returns("x", "7"), aside("Well?")],
        &["user: ?", "says: So.", &format!("asks: {stray}\n\nWell?")],
        &[(Repair::StrayResult, 1)],
    );
}

/// Nobody has shown them to the user.
#[test]
fn a_client_that_leaves_off_after_results_puts_no_words_into_our_mouth() {
    let list = [user("?"), calls("", &["a"]), returns("a", "1"), user("Well?")];
    let text = told_after_call(&list, History::Text);
    assert!(text.ends_with("\n\nWell?") && !text.contains("Assistant"), "{text}");
    let native = told_after_call(&list, History::Native);
    assert!(native.ends_with("Assistant: (No answer was given.)\nUser: Well?"), "{native}");
}

#[test]
fn of_a_list_that_is_too_long_the_newest_are_read() {
    use crate::limits::session::{HISTORY_CALLS_MAX, HISTORY_MESSAGES_MAX};

    let mut list = vec![system("Be brief."), user("Old."), says("Yes.")];
    list.extend((0..HISTORY_MESSAGES_MAX / 2).flat_map(|_| [user("More."), says("Yes.")]));
    let read = adopted(list);
    assert!(read.history.turns().all(|turn| turn.prompt == "More."));
    assert_eq!(read.system.as_deref(), Some("Be brief."));
    assert_eq!(read.repairs.of(Repair::TooLong), 1);
    let ids: Vec<_> = (0..3 * HISTORY_CALLS_MAX).map(|id| id.to_string()).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let read = adopted(vec![user("Do it."), calls("", &ids), user("Well?")]);
    assert_eq!(read.history.call_ids(), HISTORY_CALLS_MAX);
    assert_eq!(read.repairs.of(Repair::TooLong), 1);
}
