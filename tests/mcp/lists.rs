//! Lists of tools that are endless, malformed, or change.

use super::*;

#[tokio::test]
async fn an_endless_list_is_cut_and_says_so() {
    let mut bad = Bad::start("endless_cursor");
    let offering = bad.ready().await;
    assert_eq!(offering.tools.len(), tether::limits::mcp::LIST_PAGES_MAX);
    assert!(offering.report.error.unwrap().contains("more than 64 pages"));
}

#[tokio::test]
async fn a_list_that_begins_again_ends_there_and_each_tool_is_offered_once() {
    let mut bad = Bad::start("same_cursor");
    let offering = bad.ready().await;
    assert_eq!(names(&offering), ["echo", "act", "odd"]);
    assert!(offering.report.error.unwrap().contains("begins again"));
    assert!(offering.report.left_out.is_empty(), "{:?}", offering.report.left_out);
}

#[tokio::test]
async fn a_malformed_tool_is_left_out_alone() {
    let mut bad = Bad::start("malformed_tool");
    let offering = bad.ready().await;
    assert_eq!(names(&offering), ["echo", "act", "odd"]);
    assert_eq!(offering.report.left_out.len(), 3);
}

#[tokio::test]
async fn a_server_that_cannot_list_fails_with_its_own_words() {
    let mut bad = Bad::start("no_list");
    assert_eq!(bad.failed().await, "it does not list its tools: the database is down");
}

#[tokio::test]
async fn a_list_that_changes_is_taken_over() {
    let mut bad = Bad::start("changes");
    assert_eq!(names(&bad.ready().await), ["echo", "act", "odd"]);
    bad.says("odd", "").await;
    let changed = bad.until(|offering| offering.tools.len() == 2).await;
    assert_eq!(names(&changed), ["echo", "new"]);
    assert_eq!(bad.starts(), 1);
}

#[tokio::test]
async fn a_changed_list_that_cannot_be_read_is_asked_for_again() {
    let mut bad = Bad::start("changes_and_fails");
    bad.says("odd", "").await;
    let changed = bad.until(|offering| offering.tools.len() == 2).await;
    assert_eq!(names(&changed), ["echo", "new"]);
}

#[tokio::test]
async fn with_a_pin_a_changed_list_is_not_offered() {
    let directory = tempfile::tempdir().unwrap();
    let _events = events(&directory);
    let (pin, count) =
        McpServer::new(server::options("changes", Some(directory.path()))).pin().await.unwrap();
    assert_eq!(count, 3);
    let mut bad = Bad::start_with("changes", |options| options.pin = Some(pin));
    assert_eq!(names(&bad.ready().await), ["echo", "act", "odd"]);
    bad.says("odd", "").await;
    let changed = bad.until(|offering| offering.report.state == SourceState::Failed).await;
    assert!(changed.tools.is_empty());
    assert!(changed.report.error.unwrap().contains("`pin`"));
}
