//! Tools of strangers: nothing that they hide reaches the model, whichever way it learns of them.

use std::borrow::Cow;

use super::*;
use crate::tools::registry::tests::Named;
use crate::tools::source::{Declared, Effects, EntryRules, Hints, SourceKind};
use crate::tools::{CallContext, Source};

/// `files__read`, with something hidden wherever a schema can have it, and `find_tools`.
fn hiding() -> Registry {
    let hidden = "a\u{e0041}\u{202e}\u{200b}\u{9b}";
    let parameters = json!({
        "type": "object",
        "title": hidden,
        "properties": {
            hidden: {"type": "string"},
            "mode": {"enum": [hidden, "plain"], "default": hidden, "description": hidden},
            "kind": {"type": "string", "const": hidden, "pattern": hidden},
        },
        "required": ["mode", hidden],
        "$defs": {hidden: {"type": "string"}},
    });
    let declared = Declared {
        name: "read".to_owned(),
        title: Some(hidden.to_owned()),
        description: hidden.to_owned(),
        parameters,
        effects: Effects::Hinted(Hints::default()),
    };
    let spec = EntryRules::new(Source::entry(SourceKind::Mcp, "files")).spec(declared).unwrap();
    let mut tools = Registry::default();
    tools.add(Arc::new(Named(Arc::new(spec)))).unwrap();
    let index = Arc::new(Index::of(tools.catalog()));
    tools.add(Arc::new(FindTools::new(tools.catalog().clone(), index, 1000))).unwrap();
    tools
}

/// A turn whose model is told about the tool or, if it `finds`, only about `find_tools`.
fn scene(call_contract: CallContract, finds: bool) -> Scene {
    let (told, named) = if finds { (vec![1], vec![0]) } else { (vec![0], vec![]) };
    let selection = Selection { told, named, unnamed: 0 };
    let rules = Arc::new(Rules { call_contract, ..Rules::default() });
    let briefing = Briefing::selected(&rules, None, hiding().catalog(), selection).unwrap();
    Scene::of(TurnRequest { briefing: Arc::new(briefing), ..request() })
}

/// Everything in a scene's last round that a model server gets and may pass on, as it reads it.
#[track_caller]
fn check(scene: &Scene, shown: &str) {
    let round = scene.rounds.last().unwrap();
    let messages = round.messages.iter().filter_map(Message::text_content);
    let tools = round.tools.iter().map(|tool| serde_json::to_string(tool).unwrap());
    let told: String = messages.map(Cow::into_owned).chain(tools).collect();
    assert!(told.contains(shown), "{told}");
    let hidden = ['\u{e0041}', '\u{202e}', '\u{200b}', '\u{9b}'];
    assert!(!told.contains(hidden), "{told:?}");
}

const CALL: &str = "<<function_call>> {\"name\": \"files__read\", \"arguments\": {}}\n";

#[test]
fn the_prompt_hides_nothing() {
    check(&scene(Rules::default().call_contract, false), "plain");
}

#[test]
fn native_tools_hide_nothing() {
    check(&scene(CallContract::Native, false), "plain");
}

#[test]
fn the_description_after_a_call_by_bare_name_hides_nothing() {
    for call_contract in [Rules::default().call_contract, CallContract::Native] {
        let mut scene = scene(call_contract, true);
        match call_contract {
            CallContract::Native => scene.calls(0, "files__read", "{}"),
            CallContract::InText(_) | CallContract::Templated(_) => scene.says(CALL),
        };
        scene.stops();
        assert_eq!(scene.not_run, ["call_1 at 1: untold"]);
        check(&scene, "plain");
    }
}

#[tokio::test]
async fn find_tools_hides_nothing() {
    let finder = Arc::clone(hiding().get(FindTools::NAME).unwrap());
    let found = finder.call(json!({"query": "read files"}), CallContext::first("key"));
    let mut scene = scene(Rules::default().call_contract, true);
    scene.says(
        "<<function_call>> {\"name\": \"find_tools\", \"arguments\": {\"query\": \"read\"}}\n",
    );
    scene.stops().tool_returns(0, found.await.unwrap());
    check(&scene, "plain");
}

#[test]
fn feedback_shows_what_a_call_lacks_as_escapes() {
    let mut scene = scene(Rules::default().call_contract, false);
    scene.says(CALL).stops();
    assert_eq!(scene.not_run, ["call_1 at 1: refused"]);
    // The feedback is a string in a result's JSON.
    let escaped = r#"\"a\\udb40\\udc41\\u202e\\u200b\\u009b\""#;
    check(&scene, &format!("arguments[{escaped}]: expected"));
    scene.says(&CALL.replace("{}", r#"{"mode": "rich"}"#)).stops();
    check(&scene, &format!(r#"expected one of {escaped}, \"plain\""#));
}
