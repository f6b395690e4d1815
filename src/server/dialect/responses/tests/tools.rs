//! Which tools a request leaves to a turn.

use serde_json::{Value, json};

use super::requests::{function, turn, with};
use crate::gateway::BeginError;
use crate::server::dialect::responses::request::Referents;
use crate::server::refusal::Refusal;
use crate::tools::Confirm;

#[track_caller]
fn refused(tools: &Value) -> String {
    let body = json!({"model": "m", "input": "Hi.", "tools": tools});
    match with(Referents::default(), &body) {
        Err(Refusal::Invalid { param: "tools", message }) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_tool_of_ours_takes_the_place_of_a_custom_one() {
    let patch = json!({"type": "custom", "name": "patch"});
    let inside = json!({"type": "namespace", "name": "n", "tools": [patch]});
    let turn = turn(&json!({"tools": [patch, inside]}));
    assert!(turn.client_tools.is_empty());
    assert!(turn.client_tools.runs("patch") && turn.client_tools.runs("n__patch"));
}

#[test]
fn a_source_that_is_starting_is_waited_for() {
    let tools = json!([{"type": "mcp", "server_label": "starting"}]);
    let body = json!({"model": "m", "input": "Hi.", "tools": tools});
    let refused = with(Referents::default(), &body);
    assert!(matches!(refused, Err(Refusal::Begin(BeginError::ToolsUnavailable(_)))));
}

/// Without the entry, all tools would be offered.
#[test]
fn an_unknown_label_is_refused() {
    for label in [json!("typo"), json!("Files"), json!(null)] {
        let entry = json!({"type": "mcp", "server_label": label, "require_approval": "always"});
        let message = refused(&json!([entry]));
        assert!(message.ends_with("; available: builtin, files"), "{message}");
    }
}

#[test]
fn a_server_elsewhere_offers_nothing_and_still_asks_for_approval() {
    for at in [json!({"server_url": "https://a"}), json!({"connector_id": "connector_gmail"})] {
        let mut entry = json!({
            "type": "mcp", "server_label": "files", "require_approval": "always",
            "allowed_tools": ["read"],
        });
        entry.as_object_mut().unwrap().extend(at.as_object().unwrap().clone());
        let alone = turn(&json!({"tools": [entry]}));
        assert_eq!((alone.tools, alone.confirm), (None, Some(Confirm::Always)), "{at}");
        let builtin = json!({"type": "mcp", "server_label": "builtin", "allowed_tools": ["add"]});
        let beside = turn(&json!({"tools": [entry, builtin]}));
        assert_eq!(beside.tools, Some(vec!["add".to_owned()]), "{at}");
        entry["server_label"] = "theirs".into();
        assert_eq!(turn(&json!({"tools": [entry]})).confirm, None, "{at}");
    }
}

#[test]
fn tools_are_allowed_by_name_and_by_whether_they_change_anything() {
    for (allowed, expected) in [
        (json!(null), &["add", "wait"][..]),
        (json!({}), &["add", "wait"]),
        (json!([]), &[]),
        (json!({"tool_names": ["add"]}), &["add"]),
        (json!({"read_only": true}), &["add"]),
        (json!({"read_only": false}), &["wait"]),
        (json!({"read_only": true, "tool_names": ["wait"]}), &[]),
    ] {
        let entry = json!({"type": "mcp", "server_label": "builtin", "allowed_tools": allowed});
        assert_eq!(turn(&json!({"tools": [entry]})).tools.unwrap(), expected, "{allowed}");
    }
    for odd in [json!("add"), json!({"read_only": "yes"}), json!({"tool_names": "add"})] {
        let entry = json!({"type": "mcp", "server_label": "builtin", "allowed_tools": odd});
        assert!(refused(&json!([entry])).starts_with("allowed_tools must be"), "{odd}");
    }
}

#[test]
fn only_the_tools_in_a_namespace_have_one() {
    let namespace =
        |name: &str, tools: Value| json!({"type": "namespace", "name": name, "tools": tools});
    let tools = json!([
        namespace("a", json!([function("b__c"), function("d")])),
        namespace("a__b", json!([function("c"), function("e")])),
        function("a__search"),
        function("a__d"),
    ]);
    let head = turn(&json!({"tools": tools})).serializer.unwrap().head().unwrap();
    let head: Value = serde_json::from_str(head.get()).unwrap();
    assert_eq!(head["namespace_of"], json!({"a__b__c": "a", "a__b__e": "a__b"}));
}
