//! Payloads that are cut, unbalanced, too large or not JSON.

use super::*;

#[test]
fn brackets_of_the_wrong_kind() {
    let settings = settings();
    check(&settings, "§{]", &["start 0@0", "error unbalanced_payload@0 of 0 «{]»"]);
    check(
        &settings,
        "§{]\nmore",
        &["start 0@0", "error unbalanced_payload@0 of 0 «{]»", r"text «\nmore»"],
    );
    check(
        &settings,
        r#"a§{"name":"f"]} b"#,
        &[
            "text «a»",
            "start 0@1",
            r#"error unbalanced_payload@1 of 0 mid-line «{"name":"f"]»"#,
            "text «} b»",
        ],
    );
    check(&settings, "§[}", &["start 0@0", "error unbalanced_payload@0 of 0 «[}»"]);
    check(&settings, "§[{]}", &["start 0@0", "error unbalanced_payload@0 of 0 «[{]»", "text «}»"]);
    check(
        &settings,
        r#"§{"a":[1,2}}"#,
        &["start 0@0", r#"error unbalanced_payload@0 of 0 «{"a":[1,2}»"#, "text «}»"],
    );
    check(
        &settings,
        r#"§{]§{"name":"f"}"#,
        &["start 0@0", "error unbalanced_payload@0 of 0 «{]»", "start 1@19", "call 1 f {}"],
    );
}

#[test]
fn a_marker_inside_a_payload() {
    let settings = settings();
    check(
        &settings,
        r#"§{"name":"f", §{"name":"g"}"#,
        &[
            "start 0@0",
            r#"error unbalanced_payload@0 of 0 «{"name":"f", »"#,
            "start 1@30",
            "call 1 g {}",
        ],
    );
    check(
        &settings,
        "§{§",
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «{»",
            "error missing_payload@18 mid-line «<<function_call>>»",
            "text «<<function_call>>»",
        ],
    );
    check(
        &settings,
        r#"§{§{§{"name":"f"}"#,
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «{»",
            "start 1@18",
            "error unbalanced_payload@18 of 1 mid-line «{»",
            "start 2@36",
            "call 2 f {}",
        ],
    );
    check(&settings, r#"§{"name":"§"}"#, &["start 0@0", "call 0 <<function_call>> {}"]);
    check(
        &settings,
        r#"§{"name":"f","arguments":{"t":"a § {\"b\""}}"#,
        &["start 0@0", r#"call 0 f {"t":"a <<function_call>> {\"b\""}"#],
    );
    check(
        &settings,
        r#"§{"a":"\\"§ talk"#,
        &[
            "start 0@0",
            r#"error unbalanced_payload@0 of 0 «{"a":"\\"»"#,
            "error missing_payload@26 mid-line «<<function_call>> »",
            "text «<<function_call>> talk»",
        ],
    );
    check(
        &settings,
        r#"§{"name":"f"<<function_call> }"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f"<<function_call> }»"#],
    );
    // Half a marker inside a string and half outside it do not make a marker.
    check(
        &settings,
        r#"§{"name":"<<function_"call>>}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"<<function_"call>>}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f"<<function_"call>>"}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f"<<function_"call>>"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"<<function_call>","arguments":{"<<":["<","<<f"]}}"#,
        &["start 0@0", r#"call 0 <<function_call> {"<<":["<","<<f"]}"#],
    );
    check(
        &settings,
        r#"§{<<<function_call>>{"name":"f"}"#,
        &["start 0@0", "error unbalanced_payload@0 of 0 «{<»", "start 1@19", "call 1 f {}"],
    );
    check(
        &settings,
        "§{\n§ talk",
        &[
            "start 0@0",
            r"error unbalanced_payload@0 of 0 «{\n»",
            "error missing_payload@19 «<<function_call>> »",
            "text «<<function_call>> talk»",
        ],
    );
}

#[test]
fn the_stream_ends_inside_a_payload() {
    let settings = settings();
    check(&settings, "§{", &["start 0@0", "error incomplete_payload@0 of 0 «{»"]);
    check(&settings, "§[", &["start 0@0", "error incomplete_payload@0 of 0 «[»"]);
    check(
        &settings,
        r#"§{"name":"f""#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f"»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"city":"Os"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f","arguments":{"city":"Os»"#],
    );
    check(&settings, r#"§{"a":"\"#, &["start 0@0", r#"error incomplete_payload@0 of 0 «{"a":"\»"#]);
    check(
        &settings,
        "a §{\"name\":\"f\"}\n§{\"na",
        &[
            "text «a »",
            "start 0@2",
            "call 0 f {}",
            "start 1@32",
            r#"error incomplete_payload@32 of 1 «{"na»"#,
        ],
    );
    check(
        &settings,
        r#"§{"name":"f"<<function_"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f"<<function_»"#],
    );
    check(
        &settings,
        b"<<function_call>>{\"\xe2\x82",
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"�»"#],
    );
}

#[test]
fn payloads_that_are_not_json() {
    let settings = settings();
    check(&settings, "§{name:f}", &["start 0@0", "error invalid_json@0 of 0 «{name:f}»"]);
    check(
        &settings,
        r#"§{"name":"f",}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f",}»"#],
    );
    check(
        &settings,
        "§{\"name\":\"f\" \"b\":1}\nx",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f" "b":1}»"#, "text «x»"],
    );
    check(&settings, "§{'name':'f'}", &["start 0@0", "error invalid_json@0 of 0 «{'name':'f'}»"]);
    check(
        &settings,
        "§{\"name\":\"a\nb\"}",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"a\nb"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":True}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":True}}»"#],
    );
    check(
        &settings,
        r#"§{"name":"\x"}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"\x"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":01}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":01}}»"#],
    );
    check(
        &settings,
        r#"§[{"name":"f"},]"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «[{"name":"f"},]»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":1e999}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":1e999}}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"\ud800"}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":"\ud800"}}»"#],
    );
    check(
        &settings,
        b"<<function_call>>{\"name\":\"\xff\"} ok",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"�"}»"#, "text « ok»"],
    );
    check(&settings, "§{} {}", &["start 0@0", "error invalid_call@0 of 0 «{}»", "text « {}»"]);
    check(&settings, r#"§{"a"}"#, &["start 0@0", r#"error invalid_json@0 of 0 «{"a"}»"#]);
}

#[test]
fn payloads_that_are_too_large() {
    let settings = with(|s| s.max_payload_bytes = 12);
    check(&settings, r#"§{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f" } x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"f" »"#, "text « x»"],
    );
    check(
        &settings,
        r#"§{"name":"fgh"}x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"fgh»"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f, {}}"}x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"f, »"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":["f"]} x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":["f"»"#, "text « x»"],
    );
    check(
        &settings,
        r#"§{"name":"long§"} x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"lon»"#, "text « x»"],
    );
    check(
        &settings,
        r#"§{"name":["f", §{"name":""}"#,
        &[
            "start 0@0",
            r#"error payload_too_large@0 of 0 «{"name":["f"»"#,
            "start 1@31",
            r#"error invalid_call@31 of 1 mid-line «{"name":""}»"#,
        ],
    );
    check(
        &settings,
        r#"§{"name":"this never ends"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"thi»"#],
    );
    check(
        &settings,
        r#"§{"name":"fgh"]x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"fgh»"#, "text «x»"],
    );
    check(
        &settings,
        "§{\"name\":\"fgh\"}\nx",
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"fgh»"#, r"text «\nx»"],
    );
    check(&settings, r#"§         {"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
}
