//! What happens to a program's output.

use super::*;

/// Bytes of standard output that are kept.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

#[tokio::test]
async fn an_object_is_data() {
    let result = Program::script(r#"echo "{\"n\": 7}""#).run(json!({})).await.unwrap();
    assert_eq!(result, ToolResult::data(json!({ "n": 7 })));
}

#[tokio::test]
async fn an_exit_status_is_an_error_with_the_last_lines() {
    let script = "echo out; for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i >&2; done; exit 7";
    let error = Program::script(script).fails(json!({})).await;
    assert!(error.starts_with("exit status 7: line 3\n") && error.ends_with("line 10"), "{error}");
    let fine = Program::script(script).with(|it| it.ok_exit_codes = vec![0, 7]);
    assert_eq!(fine.prints(json!({})).await, "out");
}

#[tokio::test]
async fn a_signal_is_an_error_with_its_name() {
    assert_eq!(
        Program::script("kill -SEGV $$").fails(json!({})).await,
        "ended by SIGSEGV (it crashed)"
    );
}

#[tokio::test]
async fn output_is_cut_at_its_limit_and_the_rest_is_read() {
    for (bytes, is_cut) in [(OUTPUT_BYTES_MAX, false), (OUTPUT_BYTES_MAX + 1, true)] {
        let program = Program::script("head -c \"$1\" /dev/zero | tr '\\0' x; echo done >&2");
        let result = program.run(json!({ "x": bytes.to_string() })).await.unwrap();
        let text = result.data.unwrap()["text"].as_str().unwrap().len();
        assert_eq!((text, result.instruction_for_ai.is_some()), (OUTPUT_BYTES_MAX, is_cut));
    }
}

#[tokio::test]
async fn a_flood_of_errors_does_not_block_a_program() {
    let script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo; echo fine";
    assert_eq!(Program::script(script).prints(json!({})).await, "\nfine");
}

#[tokio::test]
async fn a_program_may_close_its_output_and_run_on() {
    let directory = tempfile::tempdir().unwrap();
    let program = Program::script("exec >&- 2>&-; head -c 100000 /dev/urandom | sort > made");
    program.with(|it| it.directory = Some(directory.path().to_owned())).prints(json!({})).await;
    assert_eq!(std::fs::metadata(directory.path().join("made")).unwrap().len() / 1000, 100);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(Program::script("printf 'a\\377b'").prints(json!({})).await, "a\u{fffd}b");
}

/// Models and clients read what it says.
#[tokio::test]
async fn keys_in_its_environment_are_not_in_its_output() {
    let script =
        "echo \"$API_TOKEN, $GREETING, $API_KEY_FILE\"; echo \"no: $API_TOKEN\" >&2; exit $1";
    let program = || {
        Program::script(script).with(|it| {
            let given = [
                ("API_TOKEN", "s3cr3t-key"),
                ("GREETING", "good day"),
                ("API_KEY_FILE", "/run/secrets/key"),
            ];
            it.environment.extend(given.map(|(name, value)| (name.into(), value.into())));
        })
    };
    assert_eq!(
        program().prints(json!({ "x": "0" })).await,
        "[the key], good day, /run/secrets/key"
    );
    assert_eq!(program().fails(json!({ "x": "1" })).await, "exit status 1: no: [the key]");
}
