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
    for key in ["confirm", "select"] {
        assert!(written["tools"].get(key).is_some(), "{key}");
    }
    assert_eq!(keys(&written["tools"]["select"]), keys(&effective["tools"]["select"]));
    for key in ["allow_private", "private_key_pem", "signing_algorithm"] {
        assert!(text.contains(&format!("        {key}: ")) || text.contains(&format!("# {key}: ")));
    }
    for kind in ["mcp", "http", "command"] {
        let entries = |of: &Value| of["tools"][kind].as_array().unwrap().clone();
        for (written, effective) in entries(&written).iter().zip(entries(&effective)) {
            // What is shown of the second server is said to be as in the first.
            let is_first = written["name"] != "search";
            let (written, effective) = (keys(written), keys(&effective));
            assert!(written.is_subset(&effective), "{written:?} {effective:?}");
            assert!(!is_first || written == effective, "{written:?} {effective:?}");
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
fn a_security_scheme_takes_a_key_or_client_credentials() {
    let entry = |auth: &str| {
        load(&format!(
            "tools: {{http: [{{name: a, openapi: a.json, base_url: 'https://a.example', auth: {{s: {auth}}}}}]}}"
        ))
    };
    let full = "{token_url: 'https://id.example/token', client_id: me, client_secret: sesame}";
    let yaml = entry(full).unwrap().to_yaml().unwrap();
    assert!(yaml.contains("token_url: https://id.example/token"), "{yaml}");
    assert!(!yaml.contains("sesame"), "{yaml}");
    assert!(entry("sesame").is_ok());
    for (auth, message) in [
        ("{client_id: me, client_secret: x}", ".auth.s.token_url: expected a value"),
        ("{token_url: 'ftp://a', client_id: me, client_secret: x}", ".auth.s.token_url: found"),
        ("{token_url: 'https://a.example', client_id: me}", ".auth.s: expected either"),
        ("{token_url: 'https://a.example', client_id: me, client_secret: x, x: 1}", ".auth.s.x: "),
        ("[a]", ".auth.s: found"),
    ] {
        let told = entry(auth).unwrap_err().to_string();
        assert!(told.contains(message), "{auth}: {told}");
    }
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

/// Checks that an entry of `tools.http` has one mistake with exactly this message.
#[track_caller]
fn check_http(entry: &str, message: &str) {
    let text = format!("tools: {{http: [{{name: a, description: b, {entry}}}]}}");
    let told = load(&text).unwrap_err().to_string();
    let (_, told) = told.split_once("tools.http[0]").unwrap();
    assert_eq!(told, message);
}

#[test]
fn mistakes_in_requests_are_told_at_their_key() {
    let url = "url: \"https://a.example/{x}\"";
    let x = "parameters: {properties: {x: {type: string}}, required: [x]}";
    for (entry, message) in [
        ("method: GET".to_owned(), ".url: expected a value: this key is required"),
        ("url: a".to_owned(), ".url: expected an absolute URL"),
        (url.to_owned(), ".url: there is no parameter `x`; write {{x}} for plain text"),
        (
            format!("{url}, {x}, method: GO"),
            ".method: found the text `GO`, expected one of GET, HEAD, OPTIONS, POST, PUT, PATCH, \
             DELETE",
        ),
        (
            format!("{url}, {x}, query: {{y: \"{{z}}\"}}"),
            ".query.y: there is no parameter `z`; write {{z}} for plain text",
        ),
        (
            format!("{url}, {x}, headers: {{Host: b}}"),
            ".headers.Host: the gateway writes this header itself, or never sends it",
        ),
        (
            format!("{url}, {x}, body: {{json: 1, text: b}}"),
            ".body: expected one of `json`, `form` or `text`",
        ),
        (
            format!("{url}, {x}, allow_private: [all]"),
            ".allow_private[0]: found the text `all`, expected a range of addresses, such as \
             `10.0.0.0/8`, `fd00::/8` or `127.0.0.1`",
        ),
        (
            format!("{url}, {x}, redirects: 4"),
            ".redirects: found `4`, expected a whole number of redirects from 0 to 3",
        ),
        (
            format!("{url}, {x}, result: {{pointer: data}}"),
            ".result.pointer: a JSON pointer begins with a slash: expected \"/data\"",
        ),
        (format!("{url}, {x}, polcy: {{}}"), ".polcy: unknown key, did you mean `policy`?"),
    ] {
        check_http(&entry, message);
    }
}

#[test]
fn mistakes_in_entries_with_a_document_are_told_at_their_key() {
    let told = load("tools: {http: [{openapi: http://a.example/a.json, name: A}]}").unwrap_err();
    assert_eq!(
        told.to_string(),
        "3 errors in the configuration\n  \
         t.yml:1:16: tools.http[0].base_url: expected a value: this key is required\n  \
         t.yml:1:26: tools.http[0].openapi: found the text `http://a.example/a.json`, expected an \
         https URL or a file\n  \
         t.yml:1:57: tools.http[0].name: found the text `A`, expected a name of 1 to 32 characters \
         from a-z 0-9 _ - that starts with a letter or digit"
    );
}

#[test]
fn a_secret_is_not_quoted_in_a_mistake() {
    for tools in [
        "http: [{name: a, description: b, url: 'https://a.example', headers: {K: 918273}}]",
        "command: [{name: a, description: b, command: [x], env: {K: 918273}}]",
        "http: [{openapi: 'https://u:918273@a.example/a.json', name: a, base_url: 'https://a.example'}]",
        "mcp: [{name: m, command: [x], env: {K: 918273}}]",
    ] {
        let told = load(&format!("tools: {{{tools}}}")).unwrap_err().to_string();
        assert!(told.contains("expected") && !told.contains("918273"), "{told}");
    }
}

#[test]
fn what_comes_from_the_environment_is_not_shown() {
    let entry = "{name: a, description: b, url: \"https://a.example\", headers: {K: open}, \
                 query: {k: \"${KEY}\", l: shown}, body: {json: [\"${KEY}\"]}, method: POST}";
    let text = format!("tools: {{http: [{entry}]}}");
    let config = load_with(&text, &Overrides::default(), &[("KEY", "sesame")]);
    let shown = config.unwrap().to_yaml().unwrap();
    assert!(!shown.contains("sesame") && !shown.contains("open\n"), "{shown}");
    assert!(shown.contains("l: shown"), "{shown}");
    assert_eq!(shown.matches("[redacted]").count(), 3, "{shown}");
    let entry =
        "{openapi: 'https://a.example/a.json?key=${KEY}', name: a, base_url: 'https://a.example'}";
    let text = format!("tools: {{http: [{entry}]}}");
    let config = load_with(&text, &Overrides::default(), &[("KEY", "sesame")]);
    let shown = config.unwrap().to_yaml().unwrap();
    assert!(!shown.contains("sesame") && shown.contains("key=${KEY}"), "{shown}");
    let client = "client_id: a, client_secret: b";
    let text = format!(
        "tools: {{http: [{{name: a, openapi: a.json, base_url: 'https://a.example', auth: {{s: {{token_url: \
         'https://b.example/?key=${{KEY}}', {client}}}}}}}], mcp: [{{name: m, url: 'https://a.example', auth: {{issuer: \
         'https://c.example/${{KEY}}', {client}}}}}]}}"
    );
    let config = load_with(&text, &Overrides::default(), &[("KEY", "sesame")]);
    let shown = config.unwrap().to_yaml().unwrap();
    assert!(!shown.contains("sesame"), "{shown}");
    assert!(
        shown.contains("b.example/?key=${KEY}") && shown.contains("c.example/${KEY}"),
        "{shown}"
    );
}

#[test]
fn mistakes_in_servers_are_told_at_their_key() {
    for (entry, message) in [
        ("{name: a}", ": expected either `command` or `url`"),
        (
            "{name: a, command: [x], url: \"https://a.example\"}",
            ": expected either `command` or `url`",
        ),
        ("{name: a, command: []}", ".command: expected a list: the program and its arguments"),
        ("{name: a, command: [x], headers: {A: b}}", ".headers: does not apply to a program"),
        (
            "{name: a, url: \"https://a.example\", cwd: /}",
            ".cwd: does not apply to a server over HTTP",
        ),
        (
            "{name: a, url: \"ftp://a.example\"}",
            ".url: found text, expected an http or https URL without a user or password",
        ),
        (
            "{name: a, command: [x], pin: abc}",
            ".pin: found the text `abc`, expected a hash as `tether tools pin` prints it: `sha256:` \
             and 64 digits",
        ),
        (
            "{name: a, url: \"https://a.example\", auth: {client_id: b}}",
            ".auth: expected either `client_secret` or `private_key_pem`",
        ),
        (
            "{name: a, url: \"https://a.example\", auth: {client_id: b, private_key_pem: c}}",
            ".auth.private_key_pem: the key is not PEM",
        ),
        (
            "{name: a, command: [x], max_result_bytes: 1}",
            ".max_result_bytes: found `1`, expected a whole number of bytes from 1024 to 262144",
        ),
    ] {
        let told = load(&format!("tools: {{mcp: [{entry}]}}")).unwrap_err().to_string();
        let (_, told) = told.split_once("tools.mcp[0]").unwrap();
        assert_eq!(told, message, "{entry}");
    }
}
