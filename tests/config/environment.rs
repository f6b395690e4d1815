//! `${NAME}` in a configuration file.

use super::*;

const VARIABLES: [(&str, &str); 4] =
    [("NAME", "value"), ("EMPTY", ""), ("NUMBER", "7"), ("DOLLAR", "${NAME}")];

#[track_caller]
fn check(written: &str, read: &str) {
    let text = format!("model: {{system_prompt: \"{written}\"}}");
    let config = load_with(&text, &Overrides::default(), &VARIABLES).unwrap();
    assert_eq!(config.model.system_prompt, read);
}

#[track_caller]
fn check_refused(written: &str, message: &str) {
    let text = format!("model: {{system_prompt: \"{written}\"}}");
    let error = load_with(&text, &Overrides::default(), &VARIABLES).unwrap_err();
    assert_eq!(error.to_string(), format!("t.yml:1:24: model.system_prompt: {message}"));
}

#[test]
fn variables_are_substituted() {
    check("${NAME}", "value");
    check("a ${NAME} b ${NUMBER} c", "a value b 7 c");
    check("${NAME}${NAME}", "valuevalue");
    check("${EMPTY}", "");
    check("${NAME:-other}", "value");
    check("${EMPTY:-other}", "other");
    check("${UNSET:-other}", "other");
    check("${UNSET:-}", "");
    check("${UNSET:-a:-b}", "a:-b");
}

#[test]
fn a_dollar_without_a_brace_is_literal() {
    check("$", "$");
    check("$NAME costs $5", "$NAME costs $5");
    check("$$", "$");
    check("$${NAME}", "${NAME}");
    check("$$${NAME}", "$value");
    check("a } b", "a } b");
}

#[test]
fn values_are_not_expanded_again() {
    check("${DOLLAR}", "${NAME}");
}

#[test]
fn bad_references_are_mistakes() {
    check_refused(
        "${UNSET}",
        "environment variable UNSET is not set (write `${UNSET:-default}` to give it a default)",
    );
    check_refused("a ${NAME", "`${` without a closing `}` (write `$$` for a literal `$`)");
    check_refused("${A:-${NAME}}", "the default of `${A}` cannot contain another `${`");
    let name = "expected `${NAME}` or `${NAME:-default}`, with a name of letters, digits and `_` \
                that does not start with a digit";
    check_refused("${}", name);
    check_refused("${1A}", name);
    check_refused("${A-b}", name);
    check_refused("${ NAME }", name);
}

#[test]
fn a_variable_may_be_a_number_or_a_boolean() {
    let text = "tools: {max_parallel: \"${NUMBER}\", continue_after_tool: \"${ON:-false}\"}\n\
                stream: {keep_alive_sec: \"${NUMBER}.5\"}";
    let config = load_with(text, &Overrides::default(), &VARIABLES).unwrap();
    assert_eq!(config.tools.max_parallel, 7);
    assert!(!config.tools.continue_after_tool);
    assert_eq!(config.stream.keep_alive, Duration::from_millis(7500));
}

#[test]
fn keys_are_not_substituted() {
    let error = load_with("\"${NAME}\": 1", &Overrides::default(), &[("NAME", "server")]);
    assert!(error.unwrap_err().to_string().contains("${NAME}: unknown key"));
}

#[test]
fn a_variables_value_is_never_shown() {
    let text = "tools: {max_parallel: \"${NAME}\"}";
    let error = load_with(text, &Overrides::default(), &VARIABLES).unwrap_err();
    assert_eq!(
        error.to_string(),
        "t.yml:1:23: tools.max_parallel: found `${NAME}` (its value is hidden), expected a whole \
         number of calls from 1 to 1024"
    );
}

#[test]
fn a_name_that_conflicts_is_shown_as_it_was_written() {
    for (text, message) in [
        (
            "upstreams: [{name: \"${SECRET}\"}, {name: \"${SECRET}\"}]",
            "1:41: upstreams[1].name: found `${SECRET}`, expected a unique name",
        ),
        (
            "upstreams: [{name: a}]\nchat: {models: [{name: b, upstream: \"${SECRET}\"}]}",
            " chat.models[0].upstream: found `${SECRET}`, expected an upstream: `a`",
        ),
        (
            "upstreams: [{name: \"${SECRET}\"}]\nchat: {models: [{name: b, upstream: c}]}",
            " chat.models[0].upstream: found `c`, expected an upstream: `${SECRET}`",
        ),
        (
            "upstreams: [{name: a}]\nchat: {models: [{name: \"${SECRET}\"}, {name: \"${SECRET}\"}]}",
            " chat.models[1].name: found `${SECRET}`, expected a unique name",
        ),
    ] {
        let error = load_with(text, &Overrides::default(), &[("SECRET", "hunter2")]).unwrap_err();
        assert_eq!(error.to_string(), format!("t.yml:{message}"));
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf_8_is_a_mistake() {
    use std::os::unix::ffi::OsStringExt as _;

    let environment = |_: &str| Some(OsString::from_vec(vec![0xff]));
    let text = "model: {system_prompt: \"${X}\"}";
    let error = config::load_text("t.yml", text, &Overrides::default(), &environment).unwrap_err();
    assert_eq!(
        error.to_string(),
        "t.yml:1:24: model.system_prompt: environment variable X is not valid UTF-8"
    );
}

proptest! {
    /// Whatever a variable holds, it is used as exactly that text.
    #[test]
    fn a_value_cannot_inject_yaml(value in "(?s).{0,40}") {
        let text = "model:\n  system_prompt: ${V}\nlimits: {max_tool_loops: 3}\n";
        let config = load_with(text, &Overrides::default(), &[("V", value.as_str())]).unwrap();
        prop_assert_eq!(&config.model.system_prompt, &value);
        let mut default = Config::default();
        default.model.system_prompt = value;
        default.limits.max_tool_loops = 3;
        prop_assert_eq!(config, default);
    }
}
