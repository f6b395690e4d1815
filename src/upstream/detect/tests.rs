use std::collections::BTreeSet;

use super::names::FAMILIES;
use super::templates::SIGNATURES;
use super::*;
use crate::call_format::ROWS;

fn by_template(template: &str) -> Report {
    Report { template: Some(template.to_owned()), ..Report::default() }
}

fn by_name(name: &str) -> Report {
    Report { names: vec![name.to_owned()], ..Report::default() }
}

#[track_caller]
fn check(report: &Report, contract: &str, reason: &str) {
    let Detected { contract: found, reason: because, .. } = detect(report);
    assert_eq!((found.name(), &*because), (contract, reason), "{report:?}");
}

#[test]
fn every_format_found_is_a_row() {
    let mut found = SIGNATURES.iter().map(|it| it.0).chain(FAMILIES.iter().map(|it| it.1));
    assert_eq!(found.find(|format| Row::named(format).is_none()), None);
}

#[test]
fn every_row_but_two_can_be_detected() {
    let found = SIGNATURES.iter().map(|it| it.0).chain(FAMILIES.iter().map(|it| it.1));
    let found: BTreeSet<_> = found.collect();
    let missing = ROWS.iter().map(|row| row.name).filter(|name| !found.contains(name));
    assert_eq!(missing.collect::<Vec<_>>(), ["marker_json", "dots"]);
}

#[test]
fn no_signature_and_no_family_hides_a_later_one() {
    for (at, later) in SIGNATURES.iter().enumerate() {
        let template = later.1.join(" ");
        let first =
            SIGNATURES.iter().position(|it| it.1.iter().all(|mark| template.contains(mark)));
        assert_eq!(first, Some(at), "{:?}", later.1);
    }
    for (at, (family, _)) in FAMILIES.iter().enumerate() {
        let first = FAMILIES.iter().position(|(other, _)| family.contains(other));
        assert_eq!(first, Some(at), "{family}");
    }
}

#[test]
fn a_template_outweighs_a_name() {
    let names = vec!["Hermes-3-Llama-3.1-8B".to_owned()];
    let report = Report { names, ..by_template("{{ '<function=' + f }}<parameter=") };
    check(&report, "qwen3_coder", "the chat template contains <function= and <parameter=");
}

#[test]
fn names_are_recognised_as_servers_and_files_write_them() {
    for (name, contract) in [
        ("Qwen/Qwen2.5-Coder-0.5B-Instruct", "hermes"),
        ("/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "hermes"),
        ("qwen3:0.6b", "hermes"),
        ("Qwen3-Coder-30B-A3B", "qwen3_coder"),
        ("qwen3.5:4b", "qwen3_coder"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_v31"),
        ("deepseek-ai/DeepSeek-V3.2", "dsml_v32"),
        ("zai-org/GLM-4.6", "glm45"),
        ("zai-org/GLM-5.3", "glm47"),
        ("GLM_4.7_Flash", "glm47"),
        ("llama3.1:8b", "llama3"),
        ("Llama-3.3-70B", "llama3"),
        ("Hermes-3-Llama-3.1-8B", "hermes"),
        ("NousResearch/Hermes-2-Pro-Mistral-7B", "hermes"),
        ("/home/eureka/tinyllama.gguf", "marker_json"),
        ("Meta-Llama-3.Q4_K_M.gguf", "marker_json"),
        ("Mistral-7B-Instruct-v0.1", "marker_json"),
        ("DeepSeek-R1-Distill-Llama-8B", "llama3"),
    ] {
        assert_eq!(detect(&by_name(name)).contract.name(), contract, "{name}");
    }
    let reason = "the model's name, qwen3:0.6b, contains qwen3";
    check(&by_name("qwen3:0.6b"), "hermes", reason);
}

#[test]
fn a_model_without_a_sign_is_taught() {
    let unknown = "the model's name belongs to no known family";
    check(&Report::default(), "marker_json", unknown);
    check(&by_name("SmolLM2-135M-Instruct"), "marker_json", unknown);
    let neither = "neither the chat template nor the model's name shows a known format";
    check(&by_template("{{ messages }}"), "marker_json", neither);
}

#[test]
fn a_small_model_is_taught() {
    let sized = |parameters, name| Report { parameters: Some(parameters), ..by_name(name) };
    let qwen = "qwen2.5-coder-0.5b";
    let reason = "the model's name, qwen2.5-coder-0.5b, contains qwen2.5, but the model has less than \
                  a billion parameters, so it is taught";
    check(&sized(494_032_768, qwen), "marker_json", reason);
    check(&sized(999_999_999, qwen), "marker_json", reason);
    let reason = "the model's name, qwen2.5-coder-0.5b, contains qwen2.5";
    check(&sized(1_000_000_000, qwen), "hermes", reason);
    let special = Report { sends_special: true, ..sized(268_000_000, "functiongemma-270m") };
    assert_eq!(detect(&special).contract.name(), "functiongemma");
}

#[test]
fn special_tokens_that_the_server_leaves_out_are_left_to_it() {
    let gemma = by_template("'<|tool_call>call:' + name");
    let sign = "the chat template contains <|tool_call>call:";
    check(&Report { sends_special: true, ..gemma.clone() }, "gemma4", sign);
    let lost = format!("{sign}; its special tokens may be left out of the server's text");
    let found = format!("{lost}, but the server can parse calls");
    check(&Report { calls_natively: Some(true), ..gemma.clone() }, "native", &found);
    for (calls_natively, why) in [
        (Some(false), "and the server cannot parse calls"),
        (None, "and the server does not say whether it can parse calls"),
    ] {
        let report = Report { calls_natively, ..gemma.clone() };
        check(&report, "marker_json", &format!("{lost}, {why}"));
    }
}

#[test]
fn messages_with_headers_need_their_special_tokens() {
    let gpt_oss = Report { calls_natively: Some(true), ..by_name("gpt-oss-20b") };
    let sign = "the model's name, gpt-oss-20b, contains gpt-oss";
    check(&Report { sends_special: true, ..gpt_oss.clone() }, "harmony", sign);
    let lost =
        "its special tokens may be left out of the server's text, but the server can parse calls";
    check(&gpt_oss, "native", &format!("{sign}; {lost}"));
}
