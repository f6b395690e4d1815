use proptest::prelude::*;

use super::*;
use crate::tools::schema::Schema;

/// Checks that the expression has exactly this value.
#[track_caller]
fn check(expression: &str, result: &str) {
    let data = calculate(expression).data;
    assert_eq!(data, Some(json!({"expression": expression, "result": result, "exact": true})));
}

/// Checks that the expression has approximately this value.
#[track_caller]
fn check_about(expression: &str, result: &str) {
    let data = calculate(expression).data.unwrap();
    assert_eq!((&data["result"], &data["exact"]), (&json!(result), &json!(false)));
}

/// Checks that the expression is refused with this error.
#[track_caller]
fn check_refused(expression: &str, error: &str) {
    assert_eq!(calculate(expression), ToolResult::error(error));
}

#[test]
fn sums_are_exact() {
    check("1+1", "2");
    check("0.1 + 0.2", "0.3");
    check("(17 + 4) * 2.5", "52.5");
    check("2^10", "1024");
    check("2**10", "1024");
    check("2^3^2", "512");
    check("-2^2", "-4");
    check("2^-2", "0.25");
    check("9007199254740993 + 1", "9007199254740994");
    check("123456789 * 987654321", "121932631112635269");
    check("1234.56 * 0.19", "234.5664");
    check("1/3 + 1/6", "0.5");
    check("10 - 0.9", "9.1");
    check("0.9 - 10", "-9.1");
    check("5!", "120");
    check("10 mod 3", "1");
}

#[test]
fn functions_are_those_that_people_expect() {
    check("sqrt(16)", "4");
    check("cbrt(27)", "3");
    check("abs(-3) + floor(2.7) + ceil(2.1) + round(2.5)", "11");
    check("min(3, 1, 2) + max(100,200)", "201");
    check("pow(2, 3)", "8");
    check("factorial(5)", "120");
    check_about("sqrt(2)", "1.4142135623731");
    check_about("sin(pi/2)", "1");
    check_about("ln(e)", "1");
    check_about("log10(1000) + log2(8)", "6");
}

#[test]
fn a_percentage_in_words_is_not_a_remainder() {
    for ambiguous in ["100 percent minus 15 percent", "100% minus 15%", "15 percent 80"] {
        assert!(calculate(ambiguous).error.is_some(), "{ambiguous}");
    }
}

#[test]
fn inexact_results_are_marked_as_such() {
    let third = calculate("1/3").data.unwrap();
    assert_eq!(third["fraction"], "1/3");
    assert_eq!((&third["result"], &third["exact"]), (&json!("0.333333333333333"), &json!(false)));
    check_about("2^64", "1.84467440737096e19");
    check("2^63", "9223372036854775808");
}

#[test]
fn signs_that_can_mean_one_thing_only_are_read() {
    check("3 × 4 ÷ 6", "2");
    check("3 x 4", "12");
    check("−5 + 3²", "4");
    check("√(16) + √9", "7");
    check("2³²", "4294967296");
    check("10⁻² + 2³", "8.01");
    check("12,345.5 + 123,456 + 1", "135802.5");
    check_about("2 * π", "6.28318530717959");
    check("1,000 + 1", "1001");
    check("3847*296,", "1138712");
    check("3 plus 4 times 2 minus 1", "10");
    check("8736 divided by 24", "364");
    check("7 multiplied by (2 + 1)", "21");
    check("15 percent of 80", "12");
    check("20 percent times 50", "10");
    check("20% times 50", "10");
    check("10 percent plus 5", "5.1");
    check("1,234,567 * 2", "2469134");
    check(" 2 + 2 = ? ", "4");
    check("1e3 + 1E2", "1100");
}

#[test]
fn a_percent_sign_is_a_remainder_or_a_percentage() {
    check("10 % 3", "1");
    check("10%3", "1");
    check("10 % (1+2)", "1");
    check("15% of 200", "30");
    check("200 * 15%", "30");
    check("200 / 50%", "400");
    check("5%", "0.05");
    check("100 - 15% of 200", "70");
    check_refused(
        "100 + 10%",
        "adding 10% can mean two things: write a * (1 + 10/100), or a + 10/100",
    );
    check_refused("(1+2)%", "a percentage is a number and %: write (a + b) / 100 for others");
}

#[test]
fn ambiguous_expressions_are_refused() {
    check_refused("log(100)", "log can mean two things: write log10(x), log2(x) or ln(x)");
    check_refused("min(1,000, 2)", "write numbers without commas between the thousands");
    check_refused(
        "3,5 + 1",
        "commas only separate a function's arguments: write decimals with a point",
    );
    check_refused(
        "2(3 + 4)",
        r#"unexpected token at "(": write every multiplication as * and close every parenthesis"#,
    );
    check_refused(
        "7 // 2",
        r#"unexpected token at "/": write every multiplication as * and close every parenthesis"#,
    );
}

#[test]
fn commas_that_separate_no_thousands_are_refused() {
    for expression in [
        "0,125 * 8",
        "0,250",
        "1.234,567",
        "2.5,125",
        "1234,567",
        "1,23",
        "1,234,56",
        "12,345,6789",
    ] {
        check_refused(
            expression,
            "commas only separate a function's arguments: write decimals with a point",
        );
    }
}

#[test]
fn a_remainder_of_a_number_that_is_not_exact_is_refused() {
    let error = "a remainder needs exact numbers, and these are too long or irrational";
    for expression in ["2^64 mod 3", "3^50 mod 7", "2^64 % 10", "25! mod 29", "sqrt(2) mod 1"] {
        check_refused(expression, error);
    }
    check("2^63 mod 7", "1");
    check("5.5 mod 0.3", "0.1");
}

#[test]
fn a_percent_sign_that_can_mean_two_things_is_refused() {
    let error = "% before a sign can mean two things: write a mod (-b) or a/100 - b";
    check_refused("17 % -5", error);
    check_refused("17 % +5", error);
    check("17% - 5", "-4.83");
    check_refused(
        "100 / 20% of 50",
        "put the whole percentage, such as (20% of 50), in parentheses",
    );
    check("100 / (20% of 50)", "10");
}

#[test]
fn mistakes_are_explained() {
    check_refused("1/0", r#"division by zero at "1/0""#);
    check_refused("sqrt(-1)", r#"operand out of domain at "sqrt(-1)""#);
    check_refused("10^10^10", r#"overflow at "10^10^10": the largest number is 1e308"#);
    check_refused(
        "2 + y",
        r#"unknown variable at "y": only numbers and the constants pi, e and tau can be used"#,
    );
    check_refused(
        "random()",
        r#"unknown function at "random": the functions are sqrt, cbrt, abs, round, floor, ceil, min, max, exp, ln, log10, log2, sin, cos and tan"#,
    );
    check_refused(
        "(1 + 2",
        r#"unclosed parenthesis at "(": write every multiplication as * and close every parenthesis"#,
    );
    check_refused("$5 + 1", "leave out $: only numbers can be calculated");
    check_refused("1 < 2", "'<' is not part of an arithmetic expression");
    check_refused(
        "",
        "unexpected end of expression: write every multiplication as * and close every parenthesis",
    );
}

#[test]
fn length_and_nesting_are_bounded() {
    let sum = |bytes: usize| "1+".repeat(bytes / 2) + "1";
    assert!(calculate(&sum(EXPRESSION_BYTES_MAX - 2)).success);
    check_refused(
        &sum(EXPRESSION_BYTES_MAX),
        "the expression has 513 bytes, 512 are allowed; calculate it in parts",
    );
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    check(&nested(EXPRESSION_DEPTH_MAX - 1), "1");
    check_refused(
        &nested(EXPRESSION_DEPTH_MAX),
        r#"expression nested too deeply at "1": calculate it in parts"#,
    );
}

#[test]
fn the_schema_lets_expressions_through_that_the_tool_takes() {
    let schema = Schema::compile(&spec().parameters).unwrap();
    assert_eq!(schema.validate(&json!({"expression": "1+1"})), Ok(()));
    for bad in [
        json!({}),
        json!({"expression": ""}),
        json!({"expression": 1}),
        json!({"expression": "1", "x": 1}),
    ] {
        assert!(schema.validate(&bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn the_tool_answers_at_once() {
    let result = Calculate::new()
        .call(json!({"expression": "17 * 23"}), CallContext::first("k"))
        .await
        .unwrap();
    assert_eq!(result.data.unwrap()["result"], "391");
}

proptest! {
    #[test]
    fn any_expression_is_answered(
        expression in prop_oneof![
            any::<String>(),
            r"([0-9]{1,20}|[-+*/^%(),.! ]|[0-9]!|pi|sqrt\(|fact\(|max\(|of|x|√|²|1,000){0,60}",
        ]
    ) {
        let result = calculate(&expression);
        prop_assert_eq!(result.clone().checked(), result);
    }

    #[test]
    fn integers_are_calculated_as_integers_are(a in -1_000_000_i64..1_000_000, b in 1_i64..1_000_000) {
        let result = |expression: String| calculate(&expression).data.unwrap()["result"].clone();
        prop_assert_eq!(result(format!("{a} + {b}")), (a + b).to_string());
        prop_assert_eq!(result(format!("({a}) * {b}")), (a * b).to_string());
        prop_assert_eq!(result(format!("({a}) % {b}")), (a % b).to_string());
    }
}
