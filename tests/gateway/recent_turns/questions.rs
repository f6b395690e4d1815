//! Questions that are asked on one node and answered on another.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tether::limits::session::{STORE_CONNECT_TIMEOUT, TTL};
use tether::session::store::{RedisAddress, RedisOptions, RedisStore, Store};
use tether::tools::{Clarification, ClarificationOption, Policy, Tool, ToolResult};

use super::{asked, completion};
use crate::support::client::post;
use crate::support::model::call;
use crate::support::redis_server::RedisServer;
use crate::support::tools::{Always, Seen, Wait, Watched};
use crate::support::{Gateway, Model};
use crate::{ag_ui, ai_sdk};

/// A node's own way to the server.
pub(crate) fn store_at(server: &RedisServer) -> Arc<dyn Store> {
    Arc::new(RedisStore::new(RedisOptions {
        address: RedisAddress::new(&server.url(), "", None).unwrap(),
        prefix: "tether:".to_owned(),
        connect_timeout: STORE_CONNECT_TIMEOUT,
        lease: Duration::from_secs(2),
        wait: Duration::from_secs(1),
        ttl: TTL,
    }))
}

/// Two nodes that share a server and nothing else. Each has a tool of its own.
struct Nodes {
    model: Model,
    server: RedisServer,
    one: Gateway,
    two: Gateway,
}

impl Nodes {
    async fn start<T: Tool + 'static>(tools: [T; 2]) -> Self {
        let (model, server) = (Model::listen(), RedisServer::start());
        let [first, second] = tools;
        let node = async |tool: T| {
            Gateway::with(model.address, |setup| {
                setup.store = Some(store_at(&server));
                setup.tools.add(Arc::new(tool)).unwrap();
            })
            .await
        };
        let (one, two) = (node(first).await, node(second).await);
        Self { model, server, one, two }
    }

    /// Nodes with a tool that wipes, once the user has approved it. Returns its calls on each.
    async fn that_wipe() -> (Self, [Seen; 2]) {
        let (one, seen_one) = Watched::new(wipe());
        let (two, seen_two) = Watched::new(wipe());
        (Self::start([one, two]).await, [seen_one, seen_two])
    }

    /// Asks on the first node whether to wipe. Returns the client's messages so far, and the
    /// question's id.
    async fn ask_to_wipe(&mut self) -> (Vec<Value>, Value) {
        let first = ai_sdk::user("Wipe it.");
        let body = ai_sdk::body(std::slice::from_ref(&first));
        let wipe = call("wipe", &json!({}));
        let (parts, _) = ai_sdk::asked(&self.one, &mut self.model, &body, &[&wipe]).await;
        let id = &ai_sdk::part(&parts, "data-clarification")["data"]["clarification_id"];
        (vec![first, ai_sdk::message(&parts)], id.clone())
    }
}

const MUTATES: Policy = Policy { mutates: true, destructive: true, ..Policy::NONE };

fn wipe() -> Always {
    Always::new("wipe", MUTATES, ToolResult::data(json!({})))
}

/// A request that approves the call.
fn approving(messages: &[Value], id: &Value) -> Value {
    let mut body = ai_sdk::body(&[messages, &[ai_sdk::user("Yes")]].concat());
    body["clarification_response"] =
        json!({"clarification_id": id, "selected_option": {"id": "approve"}});
    body
}

fn calls(seen: &[Seen; 2]) -> [usize; 2] {
    seen.each_ref().map(|seen| seen.lock().len())
}

#[tokio::test]
async fn a_question_in_a_chat_is_answered_on_another_node() {
    let pick_room = || {
        let asks = Policy { may_clarify: true, ..Policy::default() };
        let options = [("r7", "Red"), ("g4", "Green")];
        let question = Clarification {
            r#type: "choice".to_owned(),
            question: "Which room?".to_owned(),
            options: options.map(|(id, title)| ClarificationOption::new(id, title)).to_vec(),
            ..Clarification::default()
        };
        Always::new("pick_room", asks, ToolResult::clarification(question))
    };
    let mut nodes = Nodes::start([pick_room(), pick_room()]).await;
    let path = "/v1/chat/completions";
    let user = |words: &str| json!({"role": "user", "content": words});
    let first = completion(&json!([user("Book a room.")]));
    let pick = call("pick_room", &json!({}));
    let (answer, _) = asked((&nodes.one, path), &mut nodes.model, &first, &[&pick]).await;
    let question = &answer["choices"][0]["message"]["content"];
    let asking = json!({"role": "assistant", "content": question});
    let second = completion(&json!([user("Book a room."), asking, user("2")]));
    let (_, told) = asked((&nodes.two, path), &mut nodes.model, &second, &["Done."]).await;
    assert!(!told.contains("was left unanswered") && told.matches("g4").count() > 1, "{told}");
}

#[tokio::test]
async fn a_call_is_approved_on_another_node_and_runs_once() {
    for in_words in [true, false] {
        let (mut nodes, seen) = Nodes::that_wipe().await;
        let (messages, id) = nodes.ask_to_wipe().await;
        let by_id = approving(&messages, &id);
        let by_words = ai_sdk::body(&[&*messages, &[ai_sdk::user("Yes")]].concat());
        let first = if in_words { &by_words } else { &by_id };
        let (parts, _) = ai_sdk::asked(&nodes.two, &mut nodes.model, first, &["Wiped."]).await;
        assert_eq!(ai_sdk::part(&parts, "tool-output-available")["output"], json!({}));
        assert_eq!(calls(&seen), [0, 1]);
        // The same words again are only words, and an answer is refused: on both nodes.
        for node in [&nodes.one, &nodes.two] {
            ai_sdk::asked(node, &mut nodes.model, &by_words, &["It is done."]).await;
            assert_eq!(node.post(ai_sdk::CHAT, &by_id).await.status(), 409);
        }
        assert_eq!(calls(&seen), [0, 1]);
    }
}

/// Whether the clients mean the same chat or not.
#[tokio::test]
async fn a_call_that_is_approved_on_both_nodes_at_once_runs_once() {
    let waits = Wait::that("wipe", MUTATES);
    let (one, seen_one) = Watched::new(waits.clone());
    let (two, seen_two) = Watched::new(waits.clone());
    let mut nodes = Nodes::start([one, two]).await;
    let (messages, id) = nodes.ask_to_wipe().await;
    let approval = approving(&messages, &id);
    let mut other = approval.clone();
    other["id"] = json!("other");
    let mut clients = [nodes.one.client().await, nodes.two.client().await];
    for (client, body) in clients.iter_mut().zip([&approval, &other]) {
        client.send(post(ai_sdk::CHAT, &[], &body.to_string())).await;
    }
    waits.started().await;
    let [one, two] = &mut clients;
    let statuses = [one.head().await.status, two.head().await.status];
    let refused = statuses.iter().filter(|status| **status == 409).count();
    assert_eq!(refused, 1, "{statuses:?}");
    waits.release();
    nodes.model.round().await.answer("Wiped.").await;
    assert_eq!(calls(&[seen_one, seen_two]).iter().sum::<usize>(), 1);
}

#[tokio::test]
async fn a_call_that_the_user_has_called_off_runs_on_no_node() {
    let (mut nodes, seen) = Nodes::that_wipe().await;
    let (messages, id) = nodes.ask_to_wipe().await;
    let approval = approving(&messages, &id);
    let dropping = ai_sdk::body(&[&*messages, &[ai_sdk::user("Never mind.")]].concat());
    let mut client = nodes.one.client().await;
    client.send(post(ai_sdk::CHAT, &[], &dropping.to_string())).await;
    let running = nodes.model.round().await;
    // While it is dropped, and afterwards.
    assert_eq!(nodes.two.post(ai_sdk::CHAT, &approval).await.status(), 409);
    running.answer("Fine.").await;
    client.reply().await;
    assert_eq!(nodes.two.post(ai_sdk::CHAT, &approval).await.status(), 409);
    assert_eq!(calls(&seen), [0, 0]);
}

#[tokio::test]
async fn an_interrupted_run_of_ag_ui_is_resumed_on_another_node() {
    let mut nodes = Nodes::start([ag_ui::which_john(), ag_ui::which_john()]).await;
    // With the thread's messages, and by a client that has lost them.
    for has_messages in [true, false] {
        let (sent, interrupt) = ag_ui::asked(&nodes.one, &mut nodes.model).await;
        let messages = if has_messages { sent } else { vec![ag_ui::user("Go on.")] };
        let payload = json!({"selected_option": "js"});
        let body = ag_ui::resuming(&messages, &interrupt["id"], "resolved", Some(payload));
        let (_, told) = ag_ui::ran(&nodes.two, &mut nodes.model, &body, &["Calling Smith."]).await;
        assert!(told.contains("js") && told.contains("Let me see."), "{told}");
    }
}

#[tokio::test]
async fn a_question_of_ag_ui_that_was_dropped_is_closed_on_another_node() {
    let (mut nodes, seen) = Nodes::that_wipe().await;
    let (mut sent, id) = ag_ui::asked_to_wipe(&nodes.one, &mut nodes.model).await;
    let approval = ag_ui::resuming(&sent, &id, "resolved", Some(json!({"approved": true})));
    sent.push(ag_ui::user("Never mind."));
    let dropping = ag_ui::resuming(&sent, &id, "cancelled", None);
    let (_, told) = ag_ui::ran(&nodes.two, &mut nodes.model, &dropping, &["Fine."]).await;
    assert!(told.contains("was left unanswered"), "{told}");
    for node in [&nodes.one, &nodes.two] {
        ag_ui::check_stale(&ag_ui::events(&node.post(ag_ui::RUN, &approval).await));
    }
    assert_eq!(calls(&seen), [0, 0]);
}

/// Nobody knows whether another node has closed the question meanwhile.
#[tokio::test]
async fn without_the_store_no_call_is_approved() {
    let (mut nodes, seen) = Nodes::that_wipe().await;
    let (messages, id) = nodes.ask_to_wipe().await;
    let approval = approving(&messages, &id);
    nodes.server.signal("STOP");
    assert_eq!(nodes.one.post(ai_sdk::CHAT, &approval).await.status(), 503);
    nodes.server.signal("CONT");
    assert_eq!(calls(&seen), [0, 0]);
    // It was not refused for good.
    ai_sdk::asked(&nodes.two, &mut nodes.model, &approval, &["Wiped."]).await;
    assert_eq!(calls(&seen), [0, 1]);
}
