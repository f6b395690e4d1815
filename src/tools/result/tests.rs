use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::limits::tools::{
    MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX, OUTPUT_BYTES_MIN, QUESTION_BYTES_MAX, VIOLATIONS_MAX,
};
use crate::text::json_len;

/// Checks that `value` breaks the standard shape in exactly these ways.
#[track_caller]
fn check_broken(value: Value, problems: &[&str]) {
    let expected = format!("the tool's result breaks the standard shape: {}", problems.join("; "));
    let result = ToolResult::from_value(value);
    let uncertain = result.uncertain;
    assert_eq!(result, ToolResult { uncertain, ..ToolResult::error(expected) });
}

/// Checks that `value` has the standard shape and survives a round trip.
#[track_caller]
fn check_kept(value: &Value) {
    let result = ToolResult::from_value(value.clone());
    assert_eq!(serde_json::to_value(result).unwrap(), *value);
}

#[test]
fn plain_json_is_wrapped_as_success() {
    for plain in [
        json!(null),
        json!("text"),
        json!([1, 2]),
        json!({"error": "no claim to the shape"}),
        json!({"data": {"success": true}}),
        json!({"success": true}),
        json!({"success": false, "error": "card declined"}),
        json!({"next_action": "continue"}),
        json!({"success": true, "next_action": "call back Monday"}),
        json!({"success": 1, "next_action": "continue"}),
    ] {
        assert_eq!(ToolResult::from_value(plain.clone()), ToolResult::data(plain));
    }
}

#[test]
fn the_standard_shape_is_kept() {
    check_kept(&json!({"success": true, "next_action": "continue"}));
    check_kept(&json!({"success": true, "data": {"id": 7}, "next_action": "complete"}));
    check_kept(&json!({"success": false, "next_action": "error", "error": "no such order"}));
    check_kept(&json!({
        "success": false, "data": [1], "next_action": "continue", "instruction_for_ai": "ask again"
    }));
    check_kept(&json!({
        "success": true,
        "next_action": "clarification_needed",
        "clarification": {
            "type": "contact",
            "question": "Which John?",
            "options": [
                {"id": "c1", "title": "John Doe", "subtitle": "Sales", "confidence": 0.0},
                {"id": "c2", "title": "John Roe", "confidence": 1.0, "metadata": {"a": [1]}}
            ]
        }
    }));
}

#[test]
fn null_counts_as_absent_except_as_data() {
    let value = json!({
        "success": true, "data": null, "next_action": "continue",
        "clarification": null, "error": null, "instruction_for_ai": null
    });
    assert_eq!(ToolResult::from_value(value), ToolResult::data(Value::Null));
}

#[test]
fn a_question_without_options_can_be_answered_in_words() {
    check_kept(&json!({
        "success": true, "next_action": "clarification_needed",
        "clarification": {"type": "date", "question": "When?", "options": []}
    }));
}

#[test]
fn every_broken_rule_is_named() {
    check_broken(
        json!({"success": true, "next_action": "continue", "instruction_for_ai": 5, "extra": 1}),
        &["`instruction_for_ai` is an integer, not a string", r#"unexpected key "extra""#],
    );
    check_broken(
        json!({"success": true, "next_action": "clarification_needed", "error": "x"}),
        &[
            r#"`clarification` is missing, `next_action` is "clarification_needed""#,
            r#"`error` is only allowed if `next_action` is "error""#,
        ],
    );
    check_broken(
        json!({"success": true, "next_action": "error"}),
        &[
            r#"`error` is missing, `next_action` is "error""#,
            r#"`success` is true, `next_action` is "error""#,
        ],
    );
    check_broken(
        json!({"success": false, "next_action": "error", "error": " "}),
        &["`error` is empty"],
    );
    check_broken(
        json!({
            "success": true, "next_action": "continue",
            "clarification": {"type": "t", "question": "q"}
        }),
        &[r#"`clarification` is only allowed if `next_action` is "clarification_needed""#],
    );
}

/// What it says of itself counts, whatever else is wrong.
#[test]
fn a_failure_that_breaks_the_shape_is_a_failure_in_its_own_words() {
    let failure = json!({"success": false, "next_action": "continue", "error": "card declined"});
    let result = ToolResult::from_value(failure);
    assert!(!result.uncertain);
    assert!(result.error.unwrap().ends_with("; it says \"card declined\""));
}

#[test]
fn every_fault_of_a_question_is_named() {
    let ask = |clarification: Value| {
        json!({
            "success": true, "next_action": "clarification_needed", "clarification": clarification
        })
    };
    check_broken(ask(json!("who?")), &["`clarification` is a string, not an object"]);
    check_broken(
        ask(json!({"question": " ", "options": {}, "more": 1})),
        &[
            "`clarification.type` is missing",
            "`clarification.options` is an object, not an array",
            r#"unexpected key "clarification.more""#,
            "`clarification.question` is empty",
        ],
    );
    for own in ["confirmation", "form", "url"] {
        let options = json!([{"id": "approve", "title": "Approve"}]);
        let expected = format!(
            "`clarification.type` \"{own}\" is for the gateway's own questions: use \"choice\", \"text\" or \
             \"choice_or_text\""
        );
        check_broken(ask(json!({"type": own, "question": "q", "options": options})), &[&expected]);
    }
    check_broken(
        ask(json!({"type": "t", "question": "q", "options": [
            5,
            {"title": "no id"},
            {"id": "a", "title": "A", "confidence": 1.01, "note": ""},
            {"id": "a", "title": "", "confidence": "high"},
        ]})),
        &[
            "`clarification.options[0]` is an integer, not an object",
            "`clarification.options[1].id` is missing",
            r#"unexpected key "clarification.options[2].note""#,
            "`clarification.options[3].confidence` is a string, not a number",
            "`clarification.options[2].confidence` is not in 0 to 1",
            r#"`clarification.options[3].id` "a" was used before"#,
            "`clarification.options[3].title` is empty",
        ],
    );
}

#[test]
fn a_refusal_names_a_bounded_number_of_problems() {
    let mut fields = serde_json::Map::new();
    fields.insert("success".into(), json!(true));
    fields.insert("next_action".into(), json!("continue"));
    for n in 0..=VIOLATIONS_MAX {
        fields.insert(format!("extra{n}"), json!(1));
    }
    let error = ToolResult::from_value(Value::Object(fields)).error.unwrap();
    assert_eq!(error.matches("unexpected key").count(), VIOLATIONS_MAX);
    assert!(error.ends_with("; and 1 more"), "{error}");
}

#[test]
fn a_result_built_by_hand_is_held_to_the_same_rules() {
    let whole = ToolResult::data(json!(1));
    assert_eq!(whole.clone().checked(), whole);
    let broken = ToolResult { error: Some("x".into()), ..ToolResult::data(json!(1)) };
    assert_eq!(broken.checked().next_action, NextAction::Error);
}

#[test]
fn a_result_at_the_limit_is_whole_and_one_over_is_cut() {
    let around = json_len(&ToolResult::data(json!("")));
    let fits = ToolResult::data(json!("x".repeat(OUTPUT_BYTES_MAX - around)));
    assert_eq!(fits.clone().capped(OUTPUT_BYTES_MAX), fits);

    let over = ToolResult::data(json!("x".repeat(OUTPUT_BYTES_MAX - around + 1)));
    let cut = over.capped(OUTPUT_BYTES_MAX);
    assert_eq!(json_len(&cut), OUTPUT_BYTES_MAX);
    assert!(cut.data.unwrap().as_str().unwrap().ends_with("x…"));
    let note = cut.instruction_for_ai.unwrap();
    assert!(note.starts_with("This result was too long (262145 bytes)"), "{note}");
}

#[test]
fn small_fields_survive_beside_a_long_one() {
    let data = json!({"body": "b".repeat(OUTPUT_BYTES_MAX), "id": 7, "tags": ["a", "b"]});
    let cut = ToolResult::data(data).capped(OUTPUT_BYTES_MAX).data.unwrap();
    assert_eq!((&cut["id"], &cut["tags"]), (&json!(7), &json!(["a", "b"])));
    assert!(cut["body"].as_str().unwrap().len() > OUTPUT_BYTES_MAX * 9 / 10);
    let keys: Vec<_> = cut.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["body", "id", "tags"]);
}

#[test]
fn a_long_list_keeps_its_first_items() {
    let items: Vec<Value> = (0..100_000).map(|n| json!({"n": n})).collect();
    let cut = ToolResult::data(Value::Array(items)).capped(OUTPUT_BYTES_MAX).data.unwrap();
    let cut = cut.as_array().unwrap();
    assert!(cut.len() > 20_000);
    assert_eq!(cut[..2], [json!({"n": 0}), json!({"n": 1})]);
}

#[test]
fn a_long_error_keeps_its_beginning_and_the_tools_own_advice() {
    let result = ToolResult::error("e".repeat(OUTPUT_BYTES_MAX)).with_instruction("Try later.");
    let cut = result.capped(OUTPUT_BYTES_MAX);
    assert_eq!(json_len(&cut.error), MESSAGE_BYTES_MAX);
    assert!(cut.instruction_for_ai.unwrap().ends_with("call the tool again for less. Try later."));
}

#[test]
fn a_question_that_does_not_fit_is_not_asked_in_part() {
    let option = |n: usize| ClarificationOption {
        id: format!("id{n}"),
        title: "t".repeat(100),
        subtitle: None,
        confidence: None,
        metadata: None,
    };
    let of = |words: &str, options: usize| {
        ToolResult::clarification(Clarification {
            r#type: "contact".into(),
            question: words.into(),
            options: (0..options).map(option).collect(),
            ..Clarification::default()
        })
    };
    let rest = json_len(&of("", 9).clarification);
    let longest = of(&"x".repeat(QUESTION_BYTES_MAX - rest), 9);
    assert_eq!(longest.clone().capped(OUTPUT_BYTES_MAX), longest);
    for question in [of(&"x".repeat(QUESTION_BYTES_MAX - rest + 1), 9), of("Who?", 4000)] {
        let cut = question.capped(OUTPUT_BYTES_MAX);
        assert_eq!(cut.next_action, NextAction::Error);
        assert!(cut.error.unwrap().starts_with("the tool asks a question that is too long"));
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("continue")),
        Just(json!("clarification_needed")),
    ];
    let key = prop_oneof![
        "(success|next_action|data|clarification|error|instruction_for_ai|type|question|options|id)",
        any::<String>(),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_a_tool_returns_becomes_a_result_that_keeps_the_shape(value in any_json()) {
        let mut result = ToolResult::from_value(value);
        prop_assert_eq!(&result.clone().checked(), &result);
        // The gateway adds that, not the tool.
        result.uncertain = false;
        let written = serde_json::to_value(&result).unwrap();
        prop_assert_eq!(serde_json::to_value(ToolResult::from_value(written.clone())).unwrap(), written);
    }

    #[test]
    fn a_capped_result_fits_and_is_still_json(
        value in any_json(),
        padding in 0..3 * OUTPUT_BYTES_MIN,
        advice in any::<String>(),
        at in 0..OUTPUT_BYTES_MIN,
    ) {
        let mut result = ToolResult::from_value(value).with_instruction(advice);
        result.data = Some(json!({"before": result.data, "padding": "\u{1}é".repeat(padding)}));
        let limit = OUTPUT_BYTES_MIN + at;
        let capped = result.clone().capped(limit);
        prop_assert!(json_len(&capped) <= limit, "{} > {limit}", json_len(&capped));
        if json_len(&result) <= limit {
            prop_assert_eq!(capped, result);
        }
    }
}
