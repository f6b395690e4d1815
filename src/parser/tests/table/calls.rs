//! What a payload must be to be a call.

use super::*;

#[test]
fn json_that_is_no_call() {
    let settings = settings();
    check(&settings, "§{}", &["start 0@0", "error invalid_call@0 of 0 «{}»"]);
    check(&settings, "§{}\nx", &["start 0@0", "error invalid_call@0 of 0 «{}»", "text «x»"]);
    check(
        &settings,
        r#"§{"arguments":{}}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"arguments":{}}»"#],
    );
    check(
        &settings,
        r#"§{"name":""}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":""}»"#],
    );
    check(&settings, r#"§{"name":7}"#, &["start 0@0", r#"error invalid_call@0 of 0 «{"name":7}»"#]);
    check(
        &settings,
        r#"§{"name":null,"tool":"f"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":null,"tool":"f"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":[]}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":[]}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":7}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":7}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":true}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":true}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":"text"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":"text"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":""}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":""}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":"[1]"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":"[1]"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","name":"g"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","name":"g"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{},"arguments":{"a":1}}"#,
        &[
            "start 0@0",
            r#"error invalid_call@0 of 0 «{"name":"f","arguments":{},"arguments":{"a":1}}»"#,
        ],
    );
    check(
        &settings,
        r#"§{"Name":"f"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"Name":"f"}»"#],
    );
    check(&settings, "§[]", &["start 0@0", "error invalid_call@0 of 0 «[]»"]);
    check(&settings, "§[ ]\nx", &["start 0@0", "error invalid_call@0 of 0 «[ ]»", "text «x»"]);
    check(&settings, "§[1]", &["start 0@0", "error invalid_call@0 of 0 «1»"]);
    check(
        &settings,
        r#"§[[{"name":"f"}]]"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «[{"name":"f"}]»"#],
    );
    check(
        &settings,
        r#"§{"function":{"name":"f","arguments":{}}}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"function":{"name":"f","arguments":{}}}»"#],
    );
}

#[test]
fn keys_of_a_call() {
    let settings = settings();
    check(&settings, r#"§{"tool_name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"tool":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"function":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"name":"f","args":{"a":1}}"#, &["start 0@0", r#"call 0 f {"a":1}"#]);
    check(
        &settings,
        r#"§{"name":"f","parameters":{"a":1}}"#,
        &["start 0@0", r#"call 0 f {"a":1}"#],
    );
    check(&settings, r#"§{"name":"f","tool_args":{"a":1}}"#, &["start 0@0", r#"call 0 f {"a":1}"#]);
    check(&settings, r#"§{"name":"f","input":{"a":1}}"#, &["start 0@0", r#"call 0 f {"a":1}"#]);
    for name in ["name", "tool_name", "tool", "function"] {
        for arguments in ["arguments", "args", "parameters", "tool_args", "input"] {
            let input = format!(r#"§{{"{name}":"f","{arguments}":{{"a":1}}}}"#);
            check(&settings, input, &["start 0@0", r#"call 0 f {"a":1}"#]);
        }
    }
    check(&settings, r#"§{"tool":"a","name":"f","function":"b"}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f","input":{"a":1},"arguments":{"b":2},"args":{"c":3}}"#,
        &["start 0@0", r#"call 0 f {"b":2}"#],
    );
    check(
        &settings,
        r#"§{"input":{"a":1},"arguments":{"b":2},"name":"f"}"#,
        &["start 0@0", r#"call 0 f {"b":2}"#],
    );
    check(&settings, r#"§{"function":"b","tool":"a"}"#, &["start 0@0", "call 0 a {}"]);
    check(&settings, r#"§{"name":"f","arguments":null}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f","arguments":null,"args":{"a":1}}"#,
        &["start 0@0", r#"call 0 f {"a":1}"#],
    );
    check(&settings, r#"§{"id":"x","name":"f","type":"function"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"n\u0061me":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"name":"\u00e9"}"#, &["start 0@0", "call 0 é {}"]);
    check(&settings, r#"§{"name":" "}"#, &["start 0@0", "call 0   {}"]);
}

/// Its arguments may be under that key, and it would run without them.
#[test]
fn a_call_without_arguments_is_refused_if_it_has_an_unknown_key() {
    for (payload, is_call) in [
        (r#"{"name":"f","zone":"Tokyo"}"#, false),
        (r#"{"name":"f","params":{"zone":"Tokyo"}}"#, false),
        (r#"{"tool":"f","tool_input":{"zone":"Tokyo"}}"#, false),
        (r#"{"name":"f","arguments":null,"zone":"Tokyo"}"#, false),
        (r#"{"name":"f","arguments":{},"thought":"Hm."}"#, true),
        (r#"{"id":"x","name":"f","index":0,"description":"Looks."}"#, true),
    ] {
        let end = if is_call {
            "call 0 f {}"
        } else {
            &format!("error invalid_call@0 of 0 «{payload}»")
        };
        check(&settings(), format!("§{payload}"), &["start 0@0", end]);
    }
}

/// JSON does not say which value is meant, and a call is not run on a guess.
#[test]
fn a_key_of_the_arguments_stands_once_in_each_object() {
    for (arguments, is_call) in [
        (r#"{"to":"a","text":"x","to":"b"}"#, false),
        (r#"{"to":"a","to":"a"}"#, false),
        (r#"{"to":"a","\u0074o":"b"}"#, false),
        (r#"{"in":[{"to":{"x":1,"x":2}}]}"#, false),
        (r#""{\"to\":1,\"to\":2}""#, false),
        (r#"{"to":{"to":[{"to":1},{"to":"to"}]},"":"to"}"#, true),
    ] {
        let payload = format!(r#"{{"name":"f","arguments":{arguments}}}"#);
        let end = if is_call {
            format!("call 0 f {arguments}")
        } else {
            format!("error invalid_call@0 of 0 «{payload}»")
        };
        check(&settings(), format!("§{payload}"), &["start 0@0", &end]);
        let mending = with(|s| s.strict_balancing = false);
        check(&mending, format!("§{payload}"), &["start 0@0", &end]);
    }
    let mending = with(|s| s.strict_balancing = false);
    let (input, payload) =
        ("§{'name':'f','args':{'to':1,'to':2}}", "{'name':'f','args':{'to':1,'to':2}}");
    check(&mending, input, &["start 0@0", &format!("error invalid_call@0 of 0 «{payload}»")]);
    // Only the bad element of an array is refused.
    let bad = r#"{"name":"f","args":{"to":1,"to":2}}"#;
    check(
        &settings(),
        format!(r#"§[{bad},{{"name":"g"}}]"#),
        &["start 0@0", &format!("error invalid_call@0 of 0 «{bad}»"), "start 1@0", "call 1 g {}"],
    );
}

#[test]
fn arguments_keep_their_text() {
    let settings = settings();
    check(
        &settings,
        r#"§{"name":"f","arguments":{ "b" : 1.50 , "a":12345678901234567890.10 }}"#,
        &["start 0@0", r#"call 0 f { "b" : 1.50 , "a":12345678901234567890.10 }"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"z":1,"a":2,"y":3}}"#,
        &["start 0@0", r#"call 0 f {"z":1,"a":2,"y":3}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"e":"\u00e9\/"}}"#,
        &["start 0@0", r#"call 0 f {"e":"\u00e9\/"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"}]{["}}x"#,
        &["start 0@0", r#"call 0 f {"a":"}]{["}"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"\"}"}}x"#,
        &["start 0@0", r#"call 0 f {"a":"\"}"}"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"\\"}}x"#,
        &["start 0@0", r#"call 0 f {"a":"\\"}"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"</tool_call> 日本語 🦀"}}"#,
        &["start 0@0", r#"call 0 f {"a":"</tool_call> 日本語 🦀"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":"{\"a\": 1}"}"#,
        &["start 0@0", r#"call 0 f {"a": 1}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":" {\n\"a\":\"\u00e9\"} "}"#,
        &["start 0@0", r#"call 0 f {\n"a":"é"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":{"b":[{"c":[]}]}}}"#,
        &["start 0@0", r#"call 0 f {"a":{"b":[{"c":[]}]}}"#],
    );
}

#[test]
fn arrays_of_calls() {
    let settings = settings();
    check(&settings, r#"§[{"name":"a"}]"#, &["start 0@0", "call 0 a {}"]);
    check(
        &settings,
        "x§[{\"name\":\"a\"}, {\"name\":\"b\",\"arguments\":{\"c\":1}}]\ny",
        &["text «x»", "start 0@1", "call 0 a {}", "start 1@1", r#"call 1 b {"c":1}"#, "text «y»"],
    );
    check(
        &settings,
        r#"§[{"name":"a"},7,{"name":"b"}]"#,
        &[
            "start 0@0",
            "call 0 a {}",
            "start 1@0",
            "error invalid_call@0 of 1 «7»",
            "start 2@0",
            "call 2 b {}",
        ],
    );
    check(
        &settings,
        r#"§[7,{"name":"b"}]"#,
        &["start 0@0", "error invalid_call@0 of 0 «7»", "start 1@0", "call 1 b {}"],
    );
    check(
        &settings,
        r#"§[{},"x",null]"#,
        &[
            "start 0@0",
            "error invalid_call@0 of 0 «{}»",
            "start 1@0",
            r#"error invalid_call@0 of 1 «"x"»"#,
            "start 2@0",
            "error invalid_call@0 of 2 «null»",
        ],
    );
    check(
        &settings,
        r#"§[{"name":"a"}]§[{"name":"b"}]"#,
        &["start 0@0", "call 0 a {}", "start 1@31", "call 1 b {}"],
    );
    check(
        &settings,
        r#"§[{"name":"a"},{"name":"b""#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «[{"name":"a"},{"name":"b"»"#],
    );
    check(
        &settings,
        r#"§[{"name":"a","arguments":{"n":1e999}},{"name":"b"}]"#,
        &[
            "start 0@0",
            r#"error invalid_json@0 of 0 «{"name":"a","arguments":{"n":1e999}}»"#,
            "start 1@0",
            "call 1 b {}",
        ],
    );
}
