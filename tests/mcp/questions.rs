//! Questions of servers, and who is asked.

use tether::tools::{Given, Reporter, Resumption};

use super::*;

fn context(session: &str) -> CallContext {
    let (reporter, _) = Reporter::new();
    CallContext { session: session.into(), reporter, ..CallContext::first("call") }
}

#[tokio::test]
async fn nobody_is_asked_on_behalf_of_another() {
    // Whether rmcp knows the form or not.
    for behaviour in ["asks", "asks_oddly"] {
        let mut bad = Bad::start(behaviour);
        let odd = bad.tool("odd").await;
        // A question of one call cannot be told apart from a question of the other.
        let one = tokio::spawn(odd.call(json!({ "text": "" }), context("a")));
        let other = tokio::spawn(odd.call(json!({ "text": "" }), context("b")));
        // The first question may come before the second call: then it belongs to the first.
        let ended = within(async {
            tokio::select! {
                result = one => result,
                result = other => result,
            }
        });
        let result = ended.await.unwrap().unwrap();
        assert_eq!(result.data, Some(json!({ "action": "cancel" })), "{behaviour}");
    }
}

#[tokio::test]
async fn a_modern_question_goes_on_with_the_same_state() {
    let mut bad = Bad::start("modern_asks");
    let odd = bad.tool("odd").await;
    let state = json!({
        "state": "stäte",
        "answers": {},
        "questions": [["size", { "message": "Which size?", "requestedSchema": { "type": "object" } }]],
        "rounds": 1,
    });
    let given = Given::Content(json!({ "size": "s", "note": "none" }));
    let resumption = Some(Resumption { state, given });
    let context = CallContext { resumption, ..context("a") };
    let result = within(odd.call(json!({ "text": "" }), context)).await.unwrap();
    let expected = json!({
        "state": "stäte",
        "got": { "size": { "action": "accept", "content": { "size": "s", "note": "none" } } },
    });
    assert_eq!(result.data, Some(expected));
}

/// A server that has not answered the call of session `a`, which was given up.
async fn with_a_call_given_up() -> (Bad, Arc<dyn Tool>) {
    let mut bad = Bad::start("asks_later");
    let odd = bad.tool("odd").await;
    let first = tokio::spawn(odd.call(json!({ "text": "first" }), context("a")));
    bad.hears("called").await;
    first.abort();
    bad.hears("cancelled").await;
    (bad, odd)
}

#[tokio::test]
async fn nobody_is_asked_on_behalf_of_a_call_that_was_given_up() {
    let (_bad, odd) = with_a_call_given_up().await;
    let result = within(odd.call(json!({ "text": "second" }), context("b"))).await.unwrap();
    assert_eq!(result.data, Some(json!({ "action": "cancel" })));
}

#[tokio::test]
async fn a_modern_server_that_asks_nothing_is_called_once() {
    let mut bad = Bad::start("modern_asks_nothing");
    let result = bad.call("odd", "").await.unwrap();
    let expected = "the server asked nothing, and did not say how to go on";
    assert_eq!(result.error.as_deref(), Some(expected));
}
