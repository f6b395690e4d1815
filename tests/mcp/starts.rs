//! How servers start, end, and are started again.

use super::*;

#[tokio::test]
async fn noise_before_and_between_messages_is_skipped() {
    let mut bad = Bad::start("noise");
    assert_eq!(bad.says("echo", "hello").await, json!({ "text": "hello" }));
}

#[tokio::test]
async fn a_server_that_exits_when_it_is_probed_is_started_again_for_the_old_protocol() {
    let mut bad = Bad::start("exit_on_probe");
    let offering = bad.ready().await;
    assert_eq!(offering.report.era, Some("legacy"));
    assert_eq!(offering.report.version.as_deref(), Some("2025-11-25"));
    assert_eq!(bad.starts(), 2);
}

#[tokio::test]
async fn a_server_that_does_not_answer_the_probe_is_asked_in_the_old_protocol() {
    let mut bad = Bad::start("silent_probe");
    assert_eq!(bad.ready().await.report.era, Some("legacy"));
}

#[tokio::test]
async fn a_modern_server_needs_no_handshake() {
    let mut bad = Bad::start("modern");
    let offering = bad.ready().await;
    assert_eq!((offering.report.era, bad.starts()), (Some("modern"), 1));
}

#[tokio::test]
async fn a_server_that_never_answers_fails_in_time() {
    let mut bad = Bad::start_with("never_initializes", |options| {
        options.connect_timeout = Duration::from_millis(500);
        options.protocol = Protocol::Legacy;
    });
    assert_eq!(bad.failed().await, "it did not answer within 0.5 s (`connect_timeout_sec`)");
}

#[tokio::test]
async fn a_server_that_exits_at_once_says_why() {
    let mut bad = Bad::start("exits_at_once");
    assert_eq!(bad.failed().await, "the server ended: exit status 7; no license");
}

/// Clients read why it failed.
#[tokio::test]
async fn a_server_that_exits_does_not_repeat_its_key() {
    let mut bad = Bad::start_with("exits_with_its_key", give_key);
    assert_eq!(bad.failed().await, "the server ended: exit status 1; invalid token [the key]");
}

#[tokio::test]
async fn a_server_that_exits_after_its_handshake_says_why() {
    let mut bad = Bad::start("exits_when_listed");
    assert_eq!(bad.failed().await, "the server ended: exit status 1; Error: no database");
}

#[tokio::test]
async fn a_program_that_is_not_there_fails() {
    let mut bad = Bad::start_with("none", |options| {
        options.reach = Reach::Missing("there is no executable program x".to_owned());
    });
    assert_eq!(bad.failed().await, "there is no executable program x");
}

#[tokio::test]
async fn a_server_that_ends_is_started_again_and_keeps_its_tools_on_offer() {
    let mut bad = Bad::start("exit_in_call");
    let fault = bad.call("act", "").await.unwrap_err();
    assert_eq!(fault.message, "the server ended: exit status 3; it broke");
    let offering = bad.until(|it| it.report.state == SourceState::Ready).await;
    assert_eq!(names(&offering), ["echo", "act", "odd"]);
    assert_eq!(bad.says("echo", "again").await, json!({ "text": "again" }));
    assert_eq!(bad.starts(), 2);
}

#[tokio::test]
async fn nothing_is_left_of_a_server_whose_child_holds_its_pipes() {
    let mut bad = Bad::start("grandchild");
    let offering = bad.until(|it| it.report.state != SourceState::Starting).await;
    assert_ne!(offering.report.state, SourceState::Failed);
    bad.closes().await;
}

#[tokio::test]
async fn the_process_ends_with_the_last_that_uses_the_server() {
    let mut bad = Bad::start("plain");
    bad.ready().await;
    bad.closes().await;
}

#[tokio::test]
async fn a_server_has_time_to_end_though_its_tools_are_still_known() {
    let mut bad = Bad::start("ends_slowly");
    let echo = bad.tool("echo").await;
    assert!(bad.closes().await.ends_with("ended\n"));
    let fault = echo.call(json!({}), CallContext::first("call")).await.unwrap_err();
    assert_eq!(fault.message, "the server is no longer used");
}

/// What was approved of one program is not approved of another.
#[tokio::test]
async fn another_program_has_other_tools() {
    let [mut one, mut other] = ["plain", "noise"].map(Bad::start);
    let [one, other] = [one.tool("echo").await, other.tool("echo").await];
    assert_ne!(one.spec().digest(), other.spec().digest());
}
