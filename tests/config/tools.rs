//! Entries of `tools`.

use std::collections::BTreeSet;

use super::*;

/// Checks that an entry of `tools.command` has one mistake with exactly this message.
#[track_caller]
fn check_command(entry: &str, message: &str) {
    let text = format!("tools: {{command: [{{name: a, description: b, command: [ls], {entry}}}]}}");
    let told = load(&text).unwrap_err().to_string();
    let (_, told) = told.split_once("tools.command[0]").unwrap();
    assert_eq!(told, message);
}

/// `tools.yml` and the effective configuration have the same keys, so a key that the example
/// leaves out fails the test.
#[test]
fn the_example_has_every_key_of_every_kind_of_entry() {
    let text = std::fs::read_to_string(config_directory().join("tools.yml")).unwrap();
    let written: Value = serde_yaml::from_str(&text).unwrap();
    let config = load(&text).unwrap();
    assert_eq!(config.warnings(), Vec::<String>::new());
    let effective = serde_json::to_value(config).unwrap();
    for kind in ["command"] {
        let entries = |of: &Value| of["tools"][kind].as_array().unwrap().clone();
        for (written, effective) in entries(&written).iter().zip(entries(&effective)) {
            assert_eq!(keys(written), keys(&effective));
        }
    }
}

/// The keys of an entry that are Tether's own. A policy has no defaults to show.
fn keys(entry: &Value) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for (key, value) in entry.as_object().unwrap() {
        keys.insert(key.clone());
        if let ("sandbox", Value::Object(inner)) = (key.as_str(), value) {
            keys.extend(inner.keys().map(|inner| format!("{key}.{inner}")));
        }
    }
    keys
}

#[test]
fn a_program_needs_a_name_a_description_and_a_command() {
    let told = load("tools: {command: [{}]}").unwrap_err().to_string();
    for key in ["name", "description"] {
        let message = format!("tools.command[0].{key}: expected a value: this key is required");
        assert!(told.contains(&message), "{told}");
    }
    let message = "tools.command[0].command: expected a list: the program and its arguments";
    assert!(told.contains(message), "{told}");
}

#[test]
fn names_of_tools_are_those_that_model_servers_take() {
    for (name, is_taken) in [("a-Z_9", true), ("a.b", false), ("a b", false), ("", false)] {
        let text =
            format!("tools: {{command: [{{name: {name:?}, description: b, command: [ls]}}]}}");
        assert_eq!(load(&text).is_ok(), is_taken, "{name:?}");
    }
}

#[test]
fn mistakes_in_programs_are_told_at_their_key() {
    let path = "expected an absolute path";
    for (entry, message) in [
        ("cwd: docs", format!(".cwd: found the text `docs`, {path}")),
        ("sandbox: {read: [docs]}", format!(".sandbox.read[0]: found the text `docs`, {path}")),
        (
            "sandbox: {mode: on}",
            ".sandbox.mode: found the text `on`, expected `auto`, `require` or `off`".to_owned(),
        ),
        ("stdin: \"{x}\"", ".stdin: `x` is not one of the parameters".to_owned()),
        (
            "stdin: x",
            ".stdin: found the text `x`, expected `none`, `arguments` or the name of a parameter \
             in braces"
                .to_owned(),
        ),
        (
            "parameters: {type: array}",
            ".parameters: found a mapping, expected a JSON Schema that can be used: the \
             parameters must be a JSON Schema of type \"object\", not of type \"array\""
                .to_owned(),
        ),
        (
            "ok_exit_codes: [256]",
            ".ok_exit_codes[0]: found `256`, expected a whole number from 0 to 255".to_owned(),
        ),
        ("env: [A]", ".env: found a list, expected a mapping".to_owned()),
        (
            "policy: {confirm: sometimes}",
            ".policy.confirm: found the text `sometimes`, expected `never`, `destructive`, \
             `mutating` or `always`"
                .to_owned(),
        ),
        (
            "policy: {mutate: true}",
            ".policy.mutate: unknown key, did you mean `mutates`?".to_owned(),
        ),
    ] {
        check_command(entry, &message);
    }
}

#[test]
fn a_placeholder_without_a_parameter_is_a_mistake() {
    let text = "tools: {command: [{name: a, description: b, command: [ls, --, \"{x}\"]}]}";
    let told = load(text).unwrap_err().to_string();
    assert!(told.contains("tools.command[0].command: ") && told.contains("{x}"), "{told}");
}

#[test]
fn what_a_program_is_given_is_not_shown() {
    let text = "tools: {command: [{name: a, description: b, command: [ls], env: {KEY: sesame}}]}";
    let shown = load(text).unwrap().to_yaml().unwrap();
    assert!(!shown.contains("sesame") && shown.contains("KEY: \"[redacted]\""), "{shown}");
}
