//! Calls that servers answer late, wrongly, or not at all.

use tether::limits::mcp::OPEN_CALLS_MAX;
use tether::tools::{Reporter, ToolFault, ToolResult, TraceContext};
use tokio::task::JoinHandle;

use super::*;

#[tokio::test]
async fn an_answer_that_is_too_long_fails_the_call_and_no_other() {
    for behaviour in ["long_line", "long_line_before_its_id", "long_line_without_an_id"] {
        let mut bad = Bad::start(behaviour);
        let result = bad.call("odd", "").await.unwrap();
        let expected = "the server answered with more than 4 MiB";
        assert_eq!(result.error.as_deref(), Some(expected), "{behaviour}");
        assert!(result.uncertain, "the call was made");
        assert_eq!(bad.says("echo", "still there").await, json!({ "text": "still there" }));
        assert_eq!(bad.starts(), 1);
    }
}

#[tokio::test]
async fn a_long_line_of_a_log_is_no_answer() {
    let mut bad = Bad::start("long_line_of_a_log");
    assert_eq!(bad.says("odd", "").await, json!({ "text": "mine" }));
}

#[tokio::test]
async fn an_answer_whose_id_is_the_number_as_text_is_taken() {
    let mut bad = Bad::start("id_as_text");
    assert_eq!(bad.says("odd", "").await, json!({ "text": "mine" }));
}

#[tokio::test]
async fn a_silent_call_is_given_up_and_cancelled() {
    let mut bad = Bad::start_with("silence", |options| {
        options.silence_max = Duration::from_millis(300);
    });
    let fault = bad.call("odd", "").await.unwrap_err();
    assert_eq!(
        (fault.message.as_str(), fault.transient),
        ("the server said nothing for 0.3 s (`limits.tool_timeout_sec`)", true)
    );
    bad.hears("cancelled").await;
    assert_eq!(bad.says("echo", "next").await, json!({ "text": "next" }));
}

#[tokio::test]
async fn a_call_that_reports_is_not_silent() {
    let mut bad = Bad::start_with("slow", |options| {
        options.silence_max = Duration::from_millis(900);
    });
    assert_eq!(bad.says("odd", "").await, json!({ "text": "slow but alive" }));
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled() {
    let mut bad = Bad::start("silence");
    let odd = bad.tool("odd").await;
    let call = tokio::spawn(odd.call(json!({ "text": "" }), CallContext::first("call")));
    bad.hears("called").await;
    call.abort();
    bad.hears("cancelled").await;
}

#[tokio::test]
async fn a_flood_of_notifications_delays_nothing() {
    let mut bad = Bad::start("flood");
    let odd = bad.tool("odd").await;
    let (reporter, _reports) = Reporter::new();
    let context = CallContext { reporter, ..CallContext::first("call") };
    let result = within(odd.call(json!({ "text": "" }), context)).await.unwrap();
    assert_eq!(result.data, Some(json!({ "text": "done" })));
}

#[tokio::test]
async fn a_flood_of_requests_is_answered_in_part() {
    let mut bad = Bad::start("pings");
    assert_eq!(bad.says("odd", "").await, json!({ "text": "done" }));
    assert_eq!(bad.says("echo", "next").await, json!({ "text": "next" }));
}

#[tokio::test]
async fn text_that_is_not_unicode_is_read_all_the_same() {
    for (behaviour, expected) in [("half_character", "cut \u{fffd}"), ("bytes", "caf\u{fffd}")] {
        assert_eq!(Bad::start(behaviour).says("odd", "").await, json!({ "text": expected }));
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_call_at_once() {
    let mut bad = Bad::start("error_text");
    let result = bad.call("odd", "").await.unwrap();
    assert_eq!(result.error.as_deref(), Some("the server's answer cannot be read"));
    assert_eq!(bad.says("echo", "next").await, json!({ "text": "next" }));
}

#[tokio::test]
async fn a_request_of_the_server_with_the_id_of_a_call_is_not_its_answer() {
    assert_eq!(Bad::start("same_id").says("odd", "").await, json!({ "text": "mine" }));
}

#[tokio::test]
async fn answers_to_nothing_and_second_answers_are_ignored() {
    let mut bad = Bad::start("stray");
    assert_eq!(bad.says("odd", "").await, json!({ "text": "mine" }));
    assert_eq!(bad.says("echo", "fine").await, json!({ "text": "fine" }));
    assert_eq!(bad.starts(), 1);
}

#[tokio::test]
async fn malformed_results_and_errors_are_told() {
    let mut bad = Bad::start("malformed_result");
    let result = bad.call("odd", "").await.unwrap();
    let expected = "the server's result is malformed: its `content` is not a list";
    assert_eq!(result.error.as_deref(), Some(expected));
    let mut bad = Bad::start("error_result");
    let result = bad.call("odd", "").await.unwrap();
    assert_eq!(result.error.as_deref(), Some("the text is not nice"));
}

#[tokio::test]
async fn a_call_is_traced_and_tells_the_server_nothing_else() {
    let mut bad = Bad::start("meta");
    assert_eq!(bad.says("odd", "").await, json!({ "text": "progressToken traceparent" }));
}

#[tokio::test]
async fn a_call_goes_on_with_its_trace() {
    let mut bad = Bad::start("meta");
    let odd = bad.tool("odd").await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = TraceContext::parse(parent, "a=1");
    let context = CallContext { trace, ..CallContext::first("call") };
    let result = odd.call(json!({ "text": "" }), context).await.unwrap();
    assert_eq!(result.data, Some(json!({ "text": "progressToken traceparent tracestate" })));
}

#[tokio::test]
async fn a_servers_key_is_in_no_part_of_a_result() {
    let mut bad = Bad::start_with("tells_its_key", give_key);
    let told = bad.call("odd", "").await.unwrap();
    assert!(!format!("{told:?}").contains("s3cr3t"), "{told:?}");
    assert_eq!(told.data, Some(json!({ "[the key]": "it is [the key]" })));
    assert_eq!(told.for_user, ["for you: [the key]"]);
    assert_eq!(told.files[0].name.as_deref(), Some("[the key]"));
    let error = bad.call("act", "").await.unwrap().error.unwrap();
    assert!(error.ends_with("x[the key]…"), "{error}");
}

/// Makes as many calls as a connection may have open.
async fn fill(bad: &mut Bad) -> Vec<JoinHandle<Result<ToolResult, ToolFault>>> {
    let odd = bad.tool("odd").await;
    let call = || odd.call(json!({ "text": "" }), CallContext::first("call"));
    let open: Vec<_> = (0..OPEN_CALLS_MAX).map(|_| tokio::spawn(call())).collect();
    for _ in &open {
        bad.hears("called").await;
    }
    open
}

#[tokio::test]
async fn a_call_over_the_limit_waits_until_another_ends() {
    let mut bad = Bad::start("silence");
    let open = fill(&mut bad).await;
    let echo = bad.tool("echo").await;
    let mut waiting = echo.call(json!({ "text": "at last" }), CallContext::first("call"));
    assert!(timeout(Duration::ZERO, &mut waiting).await.is_err(), "there is no place");
    open[0].abort();
    assert_eq!(within(waiting).await.unwrap().data, Some(json!({ "text": "at last" })));
}

/// A call that is stopped at its limit before it was sent could not be told from one that was made.
#[tokio::test]
async fn waiting_for_a_place_leaves_half_of_the_call() {
    let mut bad = Bad::start_with("silence", |options| options.call_max = Duration::from_secs(1));
    let _open = fill(&mut bad).await;
    let echo = bad.tool("echo").await;
    let waiting = echo.call(json!({ "text": "" }), CallContext::first("call"));
    let fault = within(waiting).await.unwrap_err();
    assert!(fault.to_string().contains("still busy"), "{fault}");
}
