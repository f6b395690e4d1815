//! `tool_choice` of `OpenAI`'s APIs: which tools a turn has, and whether it has to call one.
//!
//! | `tool_choice` | client tools | server tools | a call |
//! | --- | --- | --- | --- |
//! | `auto` | all | all | if the model wants |
//! | `none` | none | none | never |
//! | `required` | all | all | at least one |
//! | a client tool | that one | none | that one |
//! | a server tool | none | that one | that one |
//! | `allowed_tools` | those named | those named | as its `mode` says |

use serde_json::Value;

use crate::server::refusal::Refusal;
use crate::tools::client::ClientTools;
use crate::upstream::ToolChoice;

/// The tools of a turn.
#[derive(Debug, Default)]
pub(super) struct ChosenTools {
    /// The client's.
    pub(super) client_tools: ClientTools,
    /// The names of the server tools; all if absent.
    pub(super) server_tools: Option<Vec<String>>,
    pub(super) choice: ToolChoice,
}

const EXPECTED: &str = "tool_choice must be \"auto\", \"none\", \"required\", an object that names one \
                        function, or an object of type \"allowed_tools\" with a list of tools and \
                        the mode \"auto\" or \"required\"";

/// The server tools in both lists, in the order of the first. An absent list has all.
pub(super) fn both(one: Option<Vec<String>>, other: Option<Vec<String>>) -> Option<Vec<String>> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(one.into_iter().filter(|tool| other.contains(tool)).collect())
        }
        (one, other) => one.or(other),
    }
}

/// Chooses among the client tools and the server tools that the turn may have.
pub(super) fn choose(
    choice: Option<&Value>,
    client_tools: &ClientTools,
    server_tools: Option<&[String]>,
) -> Result<ChosenTools, Refusal> {
    let any = |choice| {
        let server_tools = server_tools.map(<[String]>::to_vec);
        ChosenTools { client_tools: client_tools.clone(), server_tools, choice }
    };
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else {
        return Ok(any(ToolChoice::Auto));
    };
    if let Some(word) = choice.as_str() {
        return match word {
            "none" => Ok(ChosenTools { server_tools: Some(Vec::new()), ..ChosenTools::default() }),
            "auto" => Ok(any(ToolChoice::Auto)),
            "required" => Ok(any(ToolChoice::Required)),
            _ => Err(refusal()),
        };
    }
    if choice["type"] == "allowed_tools" {
        return allowed(choice, client_tools, server_tools);
    }
    // The gateway offers no other tool then.
    let name = name_of(choice).ok_or_else(refusal)?.to_owned();
    Ok(any(ToolChoice::Named(name)))
}

/// Whether a turn that may have these server tools may have this one.
fn may_have(server_tools: Option<&[String]>, name: &str) -> bool {
    server_tools.is_none_or(|tools| tools.iter().any(|it| it == name))
}

/// Only the tools that are named. Chat Completions wraps the list once more than Responses does.
fn allowed(
    choice: &Value,
    client_tools: &ClientTools,
    server_tools: Option<&[String]>,
) -> Result<ChosenTools, Refusal> {
    let allowed = choice.get("allowed_tools").unwrap_or(choice);
    let tools = allowed["tools"].as_array().ok_or_else(refusal)?;
    // Tools of other types are not offered anyway.
    let functions = tools.iter().filter(|it| it["type"].is_null() || it["type"] == "function");
    let names: Vec<&str> = functions.filter_map(name_of).collect();
    let choice = match allowed["mode"].as_str() {
        None | Some("auto") => ToolChoice::Auto,
        Some("required") => ToolChoice::Required,
        Some(_) => return Err(refusal()),
    };
    let is_server_tool = |name: &str| !client_tools.runs(name) && may_have(server_tools, name);
    let server_tools =
        names.iter().filter(|name| is_server_tool(name)).map(|name| (*name).to_owned());
    Ok(ChosenTools {
        client_tools: client_tools.only(|tool| names.contains(&tool)),
        server_tools: Some(server_tools.collect()),
        choice,
    })
}

/// Chat Completions has the name under `function`, Responses beside the type.
fn name_of(tool: &Value) -> Option<&str> {
    tool["function"]["name"].as_str().or_else(|| tool["name"].as_str())
}

fn refusal() -> Refusal {
    Refusal::invalid("tool_choice", EXPECTED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::Catalog;

    const ALL: &[&str] = &["open", "close"];

    /// What the choice leaves of two tools of the client, if the turn may have these of ours.
    #[track_caller]
    fn check(
        choice: &Value,
        ours: Option<&[&str]>,
        (left_clients, left_ours, call): (&[&str], Option<&[&str]>, ToolChoice),
    ) {
        let mut clients = ClientTools::default();
        for name in ALL {
            clients.add((*name).to_owned(), "", None).unwrap();
        }
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let chosen = choose(Some(choice), &clients, ours.map(owned).as_deref()).unwrap();
        assert_eq!(
            chosen.client_tools.beside(&Catalog::default()).names(),
            left_clients,
            "{choice}"
        );
        assert_eq!(chosen.server_tools, left_ours.map(owned), "{choice}");
        assert_eq!(chosen.choice, call, "{choice}");
    }

    fn function(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name}})
    }

    fn named(name: &str) -> ToolChoice {
        ToolChoice::Named(name.to_owned())
    }

    #[test]
    fn none_means_no_tool_at_all() {
        check(&json!("none"), None, (&[], Some(&[]), ToolChoice::Auto));
    }

    #[test]
    fn auto_changes_nothing() {
        check(&json!("auto"), None, (ALL, None, ToolChoice::Auto));
        check(&json!("auto"), Some(&["look"]), (ALL, Some(&["look"]), ToolChoice::Auto));
        check(&Value::Null, None, (ALL, None, ToolChoice::Auto));
    }

    #[test]
    fn required_takes_a_call_of_either_kind() {
        check(&json!("required"), None, (ALL, None, ToolChoice::Required));
    }

    #[test]
    fn a_named_tool_is_left_to_the_gateway() {
        let flat = |name: &str| json!({"type": "function", "name": name});
        for name in ["open", "look"] {
            for choice in [function(name), flat(name)] {
                check(&choice, None, (ALL, None, named(name)));
                check(&choice, Some(&[]), (ALL, Some(&[]), named(name)));
            }
        }
    }

    #[test]
    fn allowed_tools_are_a_limit_on_both() {
        let tools = json!([function("open"), function("look"), {"type": "image_generation"},
            {"type": "custom", "name": "apply_patch"}]);
        let nested = |mode: &str| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}});
        let flat = json!({"type": "allowed_tools", "mode": "auto", "tools": tools});
        let kept: (&[&str], Option<&[&str]>, _) = (&["open"], Some(&["look"]), ToolChoice::Auto);
        check(&nested("auto"), None, kept.clone());
        check(&flat, None, kept);
        check(&nested("required"), None, (&["open"], Some(&["look"]), ToolChoice::Required));
        check(&nested("auto"), Some(&[]), (&["open"], Some(&[]), ToolChoice::Auto));
        check(&nested("auto"), Some(&["find"]), (&["open"], Some(&[]), ToolChoice::Auto));
    }

    #[test]
    fn anything_else_is_refused() {
        for choice in [
            json!("always"),
            json!(7),
            json!({}),
            json!([]),
            json!({"type": "function"}),
            json!({"type": "allowed_tools"}),
            json!({"type": "allowed_tools", "allowed_tools": {"tools": 7}}),
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "never", "tools": []}}),
        ] {
            let refused = choose(Some(&choice), &ClientTools::default(), None).unwrap_err();
            assert!(matches!(refused, Refusal::Invalid { param: "tool_choice", .. }), "{choice}");
        }
    }
}
