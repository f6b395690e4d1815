//! What `strict_balancing: false` repairs.

#![expect(clippy::too_many_lines, reason = "rows")]

use super::*;

#[test]
fn lenient_drops_fences_and_language_words() {
    let settings = lenient();
    check(
        &settings,
        "§```json\n{\"name\":\"f\"}\n```\nx",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(
        &settings,
        "§ ```\n{\"name\":\"f\"}\n```x",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(
        &settings,
        "§\n```tool_call\r\n{\"name\":\"f\"}\r\n```\r\nx",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(&settings, r#"§```{"name":"f"}```"#, &["start 0@0", "call 0 f {} mended [code_fence]"]);
    check(
        &settings,
        "§```json{\"name\":\"f\"}\n``x",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «``x»"],
    );
    check(
        &settings,
        r#"§```json {"name":"f"}`x"#,
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «`x»"],
    );
    check(
        &settings,
        "§```json {\"name\":\"f\"}\rx",
        &["start 0@0", "call 0 f {} mended [code_fence]", r"text «\rx»"],
    );
    check(
        &settings,
        "§```json {\"name\":\"f\"}\nx",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(
        &settings,
        "§```json {\"name\":\"f\"}\n``",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «``»"],
    );
    check(
        &settings,
        "§json\n{\"name\":\"f\"}\n```",
        &["start 0@0", "call 0 f {} mended [language_word]", "text «```»"],
    );
    check(
        &settings,
        r#"§ JSON {"name":"f"}"#,
        &["start 0@0", "call 0 f {} mended [language_word]"],
    );
    check(&settings, r#"§ json{"name":"f"}"#, &["start 0@0", "call 0 f {} mended [language_word]"]);
    check(
        &settings,
        r#"§ is {"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> is»",
            r#"text «<<function_call>> is {"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§ json is {"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> json »",
            r#"text «<<function_call>> json is {"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§ ``{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> ``»",
            r#"text «<<function_call>> ``{"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§ ``` ```{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> ``` »",
            r#"text «<<function_call>> ``` ```{"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        "§ ```json\nx",
        &[
            r"error missing_payload@0 «<<function_call>> ```json\n»",
            r"text «<<function_call>> ```json\nx»",
        ],
    );
    check(
        &settings,
        "the `§` marker",
        &[
            "text «the `»",
            "error missing_payload@5 mid-line «<<function_call>>`»",
            "text «<<function_call>>` marker»",
        ],
    );
    check(
        &settings,
        "§ json",
        &["error missing_payload@0 «<<function_call>> json»", "text «<<function_call>> json»"],
    );
    check(
        &settings,
        r#"§ ````{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> ```»",
            r#"text «<<function_call>> ````{"name":"f"}»"#,
        ],
    );
}

#[test]
fn lenient_mends_payloads() {
    let settings = lenient();
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":[1,, ,],,}}"#,
        &["start 0@0", r#"call 0 f {"a":[1 ]} mended [trailing_comma]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":[1,2}]}x"#,
        &["start 0@0", r#"call 0 f {"a":[1,2]} mended [bracket_order]"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":[1,2,],},}"#,
        &["start 0@0", r#"call 0 f {"a":[1,2]} mended [trailing_comma]"#],
    );
    check(
        &settings,
        r#"§{'name':'f','arguments':{'a':'it\'s "x"'}}"#,
        &["start 0@0", r#"call 0 f {"a":"it's \"x\""} mended [single_quotes]"#],
    );
    check(
        &settings,
        "§{\"name\":\"f\",\"arguments\":{\"a\":\"x\ny\tz\r\u{1}\"}}",
        &["start 0@0", r#"call 0 f {"a":"x\ny\tz\r\u0001"} mended [control_character]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":True,"b":False,"c":None}}"#,
        &["start 0@0", r#"call 0 f {"a":true,"b":false,"c":null} mended [python_literal]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"True"}}"#,
        &["start 0@0", r#"call 0 f {"a":"True"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":1}"#,
        &["start 0@0", r#"call 0 f {"a":1} mended [open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"Os"#,
        &["start 0@0", r#"call 0 f {"a":"Os"} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"Os\"#,
        &["start 0@0", r#"call 0 f {"a":"Os"} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"Os\u00"#,
        &["start 0@0", r#"call 0 f {"a":"Os"} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":1,"#,
        &["start 0@0", r#"call 0 f {"a":1} mended [trailing_comma, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f","arguments":{"a":»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":tru"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f","arguments":{"a":tru»"#],
    );
    check(
        &settings,
        r#"§{"name":"f"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f»"#],
    );
    check(&settings, "§{", &["start 0@0", "error incomplete_payload@0 of 0 «{»"]);
    check(
        &settings,
        r#"§[{"name":"a"},{"name":"b"},]"#,
        &[
            "start 0@0",
            "call 0 a {} mended [trailing_comma]",
            "start 1@0",
            "call 1 b {} mended [trailing_comma]",
        ],
    );
    check(&settings, r#"§[{"name":"a"}"#, &["start 0@0", "call 0 a {} mended [open_bracket]"]);
    check(&settings, r#"§{name:"f"}"#, &["start 0@0", r#"error invalid_json@0 of 0 «{name:"f"}»"#]);
    check(&settings, r#"§{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f","arguments":"{'a':1}"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":"{'a':1}"}»"#],
    );
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
        "§{'a':'§'}",
        &["start 0@0", "error invalid_call@0 of 0 «{'a':'<<function_call>>'}»"],
    );
    check(
        &settings,
        "§```json\n{\"name\":\"f\",}\n```",
        &["start 0@0", "call 0 f {} mended [code_fence, trailing_comma]"],
    );
    check(
        &settings,
        b"<<function_call>>{\"name\":\"f\",\"arguments\":{\"a\":\"\xe2\x82",
        &["start 0@0", r#"call 0 f {"a":""} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        b"<<function_call>>{\"name\":\"\xff\"}",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"�"}»"#],
    );
    check(&settings, "§{\"name\":\"f\"]\n", &["start 0@0", "call 0 f {} mended [bracket_order]"]);
}

#[test]
fn lenient_errors_stand_at_their_marker() {
    let settings = lenient();
    check(
        &settings,
        "é ok § ```json\n{\"name\": f}\n```\nx",
        &[
            "text «é ok »",
            "start 0@6",
            r#"error invalid_json@6 of 0 mid-line «{"name": f}»"#,
            "text «x»",
        ],
    );
    check(
        &settings,
        "a\n§{'name':'f',}\n§ json {\"x\":",
        &[
            r"text «a\n»",
            "start 0@2",
            "call 0 f {} mended [single_quotes, trailing_comma]",
            "start 1@33",
            r#"error incomplete_payload@33 of 1 «{"x":»"#,
        ],
    );
    check(
        &settings,
        "a §[{'name':'f'},7]§\n``",
        &[
            "text «a »",
            "start 0@2",
            "call 0 f {} mended [single_quotes]",
            "start 1@2",
            "error invalid_call@2 of 1 mid-line «7»",
            r"error missing_payload@35 «<<function_call>>\n``»",
            r"text «<<function_call>>\n``»",
        ],
    );
    check(
        &settings,
        "§{'a':'<<function_', 'b':§{\"name\":\"f\"}",
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «{'a':'<<function_', 'b':»",
            "start 1@41",
            "call 1 f {}",
        ],
    );
}

#[test]
fn lenient_mends_nul_bytes_inside_strings_alone() {
    let settings = lenient();
    check(
        &settings,
        "§{\"name\":\"f\",\"arguments\":{\"a\":\"x\0\"}}",
        &["start 0@0", r#"call 0 f {"a":"x\u0000"} mended [control_character]"#],
    );
    check(
        &settings,
        "§{\"name\":\"f\"\0}",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f"\0}»"#],
    );
}
