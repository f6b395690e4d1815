//! What fits an upstream depends on its kind and on its call contract.

use super::*;

/// Checks that the file has one mistake, with this key.
#[track_caller]
fn check_refused(text: &str, key: &str, message: &str) {
    let error = load(text).unwrap_err();
    let [mistake] = &*error.mistakes else { panic!("{error}") };
    assert_eq!((&*mistake.key, &*mistake.message), (key, message), "{text}");
}

#[test]
fn a_model_whose_text_the_gateway_reads_makes_no_native_calls() {
    let embedded = "found `native`, expected a call format in text: upstream `embedded` is the \
                    embedded model, which only writes calls as text";
    check_refused(
        "upstreams: [{kind: embedded, call_contract: native}]",
        "upstreams[0].call_contract",
        embedded,
    );
    check_refused(
        "upstreams: [{}, {kind: embedded, call_contract: native}]",
        "upstreams[1].call_contract",
        embedded,
    );
    check_refused(
        "upstreams: [{kind: llama_completion, call_contract: native}]",
        "upstreams[0].call_contract",
        "found `native`, expected a call format or `auto`: with kind `llama_completion`, Tether \
         itself reads the model's text",
    );
    // Its own contract counts.
    let own = "upstreams: [{kind: embedded, call_contract: hermes}]";
    assert!(load(&format!("tools: {{call_contract: native}}\n{own}")).is_ok());
}

#[test]
fn a_server_is_sent_no_constraint_that_it_does_not_know() {
    for constrain in ["structural_tag", "json_schema"] {
        check_refused(
            &format!("upstreams: [{{kind: llama_completion, constrain: {constrain}}}]"),
            "upstreams[0].constrain",
            &format!("found the text `{constrain}`, expected `auto`, `none` or `llama_grammar`"),
        );
        let text = format!("upstreams: [{{kind: openai_chat, constrain: {constrain}}}]");
        assert!(load(&text).is_ok(), "{constrain}");
    }
    for constrain in ["auto", "none"] {
        check_refused(
            &format!("upstreams: [{{kind: openai_responses, constrain: {constrain}}}]"),
            "upstreams[0].constrain",
            "only applies to kind `openai_chat` or `llama_completion`",
        );
    }
}

/// The chat template that it is sent is filled in with calls and results.
#[test]
fn a_server_that_is_sent_prompts_has_a_native_history() {
    for (kind, history) in [
        ("llama_completion", History::Native),
        ("openai_chat", History::Text),
        ("openai_responses", History::Text),
    ] {
        let config = load(&format!("upstreams: [{{kind: {kind}}}]")).unwrap();
        assert_eq!(model_server(&config).history, history, "{kind}");
    }
}

/// A marker is of use if one upstream has it.
#[test]
fn a_marker_is_refused_if_no_upstream_has_one() {
    let file = |first: &str, second: &str| {
        let first = format!("{{name: a{first}}}");
        let second = format!("{{name: b{second}}}");
        format!("upstreams: [{first}, {second}]\nstream: {{parser: {{marker: '[call]'}}}}")
    };
    let (hermes, taught) = (", call_contract: hermes", ", call_contract: marker_json");
    for (first, second) in [(hermes, ""), ("", hermes), (hermes, taught), (taught, hermes)] {
        assert!(load(&file(first, second)).is_ok(), "{first} {second}");
    }
    check_refused(
        &file(hermes, hermes),
        "stream.parser.marker",
        "found \"[call]\", but with call_contract `hermes` calls always begin with <tool_call>; \
         remove this key",
    );
}
