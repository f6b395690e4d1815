//! Messages to people. The results come from the demonstration tools themselves.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::call_format::CallFormat;
use crate::conversation::render::results;
use crate::tools::CallContext;

/// The rendered answer of a demonstration tool.
fn asked(tool: &str, arguments: Value) -> Value {
    let tools = demo::tools();
    let tool = tools.iter().find(|known| known.spec().name == tool).unwrap();
    let call = pin!(tool.call(arguments, CallContext::first("k")));
    let Poll::Ready(result) = call.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("they only compute")
    };
    serde_json::from_str(&results::json(&result.unwrap(), &CallFormat::default(), usize::MAX))
        .unwrap()
}

fn lookup(name: &str) -> (&'static str, Value) {
    ("lookup_contacts", asked("lookup_contacts", json!({"name": name})))
}

fn sent(id: &str) -> (&'static str, Value) {
    ("send_message", asked("send_message", json!({"contact_id": id, "text": "I'm late"})))
}

fn not_sent(why: &str) -> (&'static str, Value) {
    ("send_message", error(&format!("not run: {why}")))
}

fn calls_lookup(name: &str) -> String {
    calls("lookup_contacts", &json!({"name": name}))
}

fn calls_send(id: &Value, text: &str) -> String {
    calls("send_message", &json!({"contact_id": id, "text": text}))
}

fn calls(tool: &str, arguments: &Value) -> String {
    format!("<<function_call>> {{\"name\": \"{tool}\", \"arguments\": {arguments}}}")
}

#[test]
fn haste_looks_up_and_sends_in_one_message() {
    let question = user("Tell Jane I'm running late");
    let id = json!({"$result": "call_1.data.contact_id"});
    let calls = format!(
        "Let me find Jane and pass that on.\n\n{}\n{}",
        calls_lookup("Jane"),
        calls_send(&id, "I'm running late")
    );
    check(std::slice::from_ref(&question), &calls);
    check(
        &[question, assistant(&calls), results(&[lookup("Jane"), sent("contact_jane_miller")])],
        "Done: the message to Jane Miller is sent.",
    );
}

#[test]
fn care_looks_up_first() {
    let question = user("Text Jane that I'm running late");
    let first = format!("Let me look up Jane.\n\n{}", calls_lookup("Jane"));
    let id = json!("contact_jane_miller");
    let second = format!("Sending it to Jane.\n\n{}", calls_send(&id, "I'm running late"));
    let mut messages = vec![question];
    check(&messages, &first);
    messages.extend([assistant(&first), results(&[lookup("Jane")])]);
    check(&messages, &second);
    messages.extend([assistant(&second), results(&[sent("contact_jane_miller")])]);
    check(&messages, "Done: the message to Jane Miller is sent.");
}

/// Three Johns were found, however the question was worded.
fn which_john(question: &str) -> Vec<Message> {
    let outcomes = [lookup("John"), not_sent("lookup_contacts (call_1) needs the user's answer")];
    let count = if question.starts_with("Tell") { 2 } else { 1 };
    vec![
        user(question),
        assistant("..."),
        results(&outcomes[..count]),
        assistant("Which John do you mean?"),
    ]
}

#[test]
fn the_choice_goes_to_its_real_id_without_a_second_lookup() {
    for question in ["Tell John I'm late", "Text John: I'm late", "Let John know that I'm late"] {
        for (id, title) in [
            ("contact_john_doe", "John Doe"),
            ("contact_john_smith", "John Smith"),
            ("contact_john_carter", "John Carter"),
        ] {
            for choice in [
                format!("The user chose \"{title}\" (id: {id})."),
                format!(
                    "To the question \"Which John do you mean?\" the user chose this one: \
                     {{\"id\":\"{id}\",\"title\":\"{title}\"}}\nContinue with what was asked before, \
                     with this id. Do not look it up again."
                ),
                format!("I mean {title}, whose id is {id}"),
                format!(
                    "The question was \"Which John do you mean?\" Selected: {{\"id\":\"{id}\"}}"
                ),
            ] {
                let mut messages = which_john(question);
                messages.push(user(&choice));
                let send = calls_send(&json!(id), "I'm late");
                check(&messages, &format!("Sending it to {title}.\n\n{send}"));
                messages.extend([assistant("..."), results(&[sent(id)])]);
                check(&messages, &format!("Done: the message to {title} is sent."));
            }
        }
    }
}

#[test]
fn a_choice_in_one_message_with_the_results_is_heard() {
    let mut messages = which_john("Tell John I'm late");
    messages.pop();
    let results = messages.pop().unwrap().text_content().unwrap().into_owned();
    messages.push(user(&format!("{results}\n\nThe user chose John Smith: contact_john_smith.")));
    let send = calls_send(&json!("contact_john_smith"), "I'm late");
    check(&messages, &format!("Sending it to John Smith.\n\n{send}"));
}

#[test]
fn an_id_inside_a_longer_one_is_not_taken_for_it() {
    let options = json!([
        {"id": "c1", "title": "John Doe"}, {"id": "c12", "title": "John Roe"},
        {"id": "c1:work", "title": "John Poe"}
    ]);
    let clarification = json!({"type": "choice", "question": "Which?", "options": options});
    let asks = json!({
        "next_action": "clarification_needed", "clarification": clarification
    });
    for (id, title) in [("c1", "John Doe"), ("c12", "John Roe"), ("c1:work", "John Poe")] {
        let messages = [
            user("Tell John hello"),
            assistant("..."),
            results(&[("lookup_contacts", asks.clone())]),
            assistant("Which?"),
            user(&format!("The user chose this one: {id}.")),
        ];
        let send = calls_send(&json!(id), "hello");
        check(&messages, &format!("Sending it to {title}.\n\n{send}"));
    }
}

#[test]
fn an_answer_in_words_is_looked_up() {
    let mut messages = which_john("Tell John I'm late");
    messages.push(user("To the question \"Which one do you mean?\" the user says: Doe, please"));
    check(&messages, &format!("Let me look up Doe.\n\n{}", calls_lookup("Doe")));
    messages.extend([assistant("..."), results(&[lookup("Doe")])]);
    let send = calls_send(&json!("contact_john_doe"), "I'm late");
    check(&messages, &format!("Sending it to Doe.\n\n{send}"));
}

#[test]
fn something_else_instead_of_an_answer_drops_the_question() {
    for other in ["Never mind", "What is 1+1?", "Text Maria hello", "check my billing"] {
        let mut messages = which_john("Tell John I'm late");
        messages.push(user(other));
        let script = answer(&request(messages, all_tools()));
        assert!(!script.text.contains("send_message\",") && !script.text.contains("I'm late"));
    }
    let mut messages = which_john("Tell John I'm late");
    let note = "(The question \"Which John do you mean?\" was left unanswered; it is dropped.)";
    messages.push(user(&format!("{note}\n\nNever mind")));
    let script = answer(&request(messages, all_tools()));
    assert!(script.text.contains("I am the rehearsal model"), "{}", script.text);
}

#[test]
fn nothing_is_sent_if_nobody_is_found() {
    let told = "I found nobody called Zorgblort, so I sent nothing.";
    for (question, count) in [("Tell Zorgblort hello", 2), ("Text Zorgblort hello", 1)] {
        let outcomes = [lookup("Zorgblort"), not_sent("lookup_contacts (call_1) ended the chain")];
        let results = results(&outcomes[..count]);
        let tools = [all_tools(), Vec::new()];
        for offered in tools {
            let messages = vec![user(question), assistant("..."), results.clone()];
            assert_eq!(answer(&request(messages, offered)).text, told);
        }
        // With no text in between, the question and the results form one message.
        let joined = format!("{question}\n\n{}", results.text_content().unwrap());
        assert_eq!(answer(&request(vec![user(&joined)], Vec::new())).text, told);
    }
    for nobody in [json!({"contacts": []}), json!({"matches": []}), json!(null)] {
        check(
            &[user("Text Zorgblort hello"), results(&[("lookup_contacts", data(&nobody))])],
            "I found nobody of that name, so I sent nothing.",
        );
    }
}

#[test]
fn a_failed_lookup_is_reported_without_its_dependents() {
    check(
        &[
            user("Tell Jane hello"),
            results(&[
                ("lookup_contacts", error("the book is locked")),
                not_sent("lookup_contacts (call_1), which comes first, has failed"),
            ]),
        ],
        "lookup_contacts did not work: the book is locked.",
    );
}

#[test]
fn a_person_who_is_asked_about_is_not_sent_to() {
    check(
        &[user("Tell J I'm late"), results(&[lookup("J"), not_sent("...")])],
        "I sent nothing yet. Who do you mean by \"J\"?",
    );
}

#[test]
fn messages_are_understood() {
    for (question, name, text) in [
        ("Send a message to Jane: hello", "Jane", "hello"),
        ("please text John Doe that dinner is at 8", "John Doe", "dinner is at 8"),
        ("Let Maria know I'm on my way", "Maria", "I'm on my way"),
        ("let jane know that we're late", "jane", "we're late"),
        ("Could you message J, I'm late", "J", "I'm late"),
        ("send \"see you\" to Jane Miller", "Jane Miller", "see you"),
        ("Send I'm late to John.", "John", "I'm late"),
        ("Text Jane", "Jane", "Hello!"),
    ] {
        check_calls(question, &[("lookup_contacts", json!({"name": name}))]);
        let messages = [user(question), results(&[lookup("Jane")])];
        let send = calls_send(&json!("contact_jane_miller"), text);
        check(&messages, &format!("Sending it to {name}.\n\n{send}"));
    }
    let id = json!({"$result": "call_1.data.contact_id"});
    let hasty = |name: &str, text: &str| {
        [
            ("lookup_contacts", json!({"name": name})),
            ("send_message", json!({"contact_id": id, "text": text})),
        ]
    };
    check_calls("Tell J I'm late", &hasty("J", "I'm late"));
    check_calls("please tell john that I'm late", &hasty("john", "I'm late"));
    check_calls("Tell John Doe: it is 5 + 5", &hasty("John Doe", "it is 5 + 5"));
}

#[test]
fn not_every_verb_is_a_message() {
    let time = |arguments| [("get_current_time", arguments)];
    check_calls("Tell me the time", &time(json!({})));
    check_calls("Tell us the time in Tokyo", &time(json!({"timezone": "Asia/Tokyo"})));
    check_calls("let me know the time", &time(json!({})));
    check_calls("What is the text size, 1+1?", &[("calculate", json!({"expression": "1+1"}))]);
}
