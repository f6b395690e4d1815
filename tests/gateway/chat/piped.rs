//! Standard input is one prompt; standard output gets the answer alone.

use serde_json::{Value, json};
use tether::config::Secret;
use tokio::spawn;

use super::{chat, chat_at, run};
use crate::support::model::call;
use crate::support::{Away, Gateway, Model};

#[tokio::test]
async fn the_answer_goes_to_standard_output_and_nothing_else() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let ended = spawn(run(chat(gateway.address, &[]), "Say\nhello.\n"));
    let round = model.round().await;
    let asked = round.request.body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(asked["content"], "Say\nhello.");
    round.answer("Hello \u{1b}[1mthere.").await;
    let ended = ended.await.unwrap();
    assert_eq!((ended.status, &*ended.notes), (Some(0), ""));
    assert_eq!(ended.answer, "Hello \u{1b}[1mthere.\n", "a program gets the words as they are");
}

#[tokio::test]
async fn calls_are_shown_on_standard_error() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let ended = spawn(run(chat(gateway.address, &[]), "2 + 2?"));
    let sum = call("calculate", &json!({"expression": "2 + 2"}));
    model.answers(&[&format!("Let me see.\n{sum}"), "It is 4."]).await;
    let ended = ended.await.unwrap();
    assert_eq!((ended.status, &*ended.answer), (Some(0), "Let me see.\nIt is 4.\n"));
    let lines: Vec<&str> = ended.notes.lines().collect();
    assert_eq!(lines[0], r#"  → #1 calculate {"expression":"2 + 2"}"#);
    assert!(lines[1].starts_with("  ✓ #1 calculate "), "{}", ended.notes);
    assert!(lines[1].contains(r#""result":"4""#), "{}", ended.notes);
    assert_eq!(lines.len(), 2, "{}", ended.notes);
}

#[tokio::test]
async fn a_failed_turn_is_status_1() {
    let away = Away::anywhere();
    let gateway = Gateway::with(away.address(), |_| {}).await;
    let ended = run(chat(gateway.address, &[]), "Hello?").await;
    assert_eq!((ended.status, &*ended.answer), (Some(1), ""));
    assert!(ended.notes.starts_with("error: cannot connect to "), "{}", ended.notes);
    assert_eq!(ended.notes.lines().count(), 1, "{}", ended.notes);
}

/// Nothing is lost: whoever has a terminal can still answer.
#[tokio::test]
async fn a_question_is_left_open_without_a_terminal() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.config.tools.confirm = tether::tools::Confirm::Always)
            .await;
    let ended = spawn(run(chat(gateway.address, &["--session", "s"]), "2 + 2?"));
    model.answers(&[&call("calculate", &json!({"expression": "2 + 2"}))]).await;
    let ended = ended.await.unwrap();
    assert_eq!((ended.status, &*ended.answer), (Some(1), ""));
    assert!(
        ended.notes.contains("? calculate (builtin) wants to run:\n    expression: \"2 + 2\"\n"),
        "{}",
        ended.notes
    );
    let last = ended.notes.lines().last().unwrap();
    assert!(last.starts_with("error: the question needs an answer"), "{last}");
    let resume = format!("run `tether chat --url http://{} --session s`", gateway.address);
    assert!(last.ends_with(&resume), "{last}");
    let session: Value =
        serde_json::from_slice(&gateway.get("/api/v1/sessions/s").await.body).unwrap();
    assert!(session["clarification"].is_object(), "{session}");
}

#[tokio::test]
async fn a_session_goes_on() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for (prompt, answer) in [("I am Ada.", "Hello, Ada."), ("Who am I?", "Ada.")] {
        let ended = spawn(run(chat(gateway.address, &["--session", "s"]), prompt));
        let told = model.answers(&[answer]).await;
        assert!(told.contains("I am Ada."), "{told}");
        assert_eq!(ended.await.unwrap().answer, format!("{answer}\n"));
    }
}

#[tokio::test]
async fn a_gateway_that_is_not_running_is_one_clear_error() {
    let away = Away::anywhere();
    let ended = run(chat(away.address(), &[]), "Hello?").await;
    assert_eq!(ended.status, Some(1));
    let address = away.address();
    assert_eq!(
        ended.notes,
        format!(
            "error: cannot connect to http://{address}: Connection refused (os error 111); start the \
             gateway with `tether`, or give its address with --url\n"
        )
    );
}

#[tokio::test]
async fn a_key_is_taken_from_the_environment() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.server.api_keys = vec![Secret::new("sesame".to_owned())];
    })
    .await;
    for (key, expected) in [
        (None, "error: the gateway requires an API key; set TETHER_API_KEY\n"),
        (Some("wrong"), "error: the gateway does not accept the key in TETHER_API_KEY\n"),
    ] {
        let mut command = chat(gateway.address, &[]);
        command.envs(key.map(|key| ("TETHER_API_KEY", key)));
        let ended = run(command, "Hello?").await;
        assert_eq!((ended.status, &*ended.notes), (Some(1), expected));
    }
    let mut command = chat(gateway.address, &[]);
    command.env("TETHER_API_KEY", "sesame");
    let ended = spawn(run(command, "Hello?"));
    model.answers(&["Come in."]).await;
    assert_eq!(ended.await.unwrap().answer, "Come in.\n");
}

#[tokio::test]
async fn a_full_gateway_says_when_to_try_again() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.config.server.max_concurrent_turns = 1).await;
    let (_stream, _round) = gateway.begin(&mut model, "other").await;
    let ended = run(chat(gateway.address, &[]), "Hello?").await;
    assert_eq!((ended.status, &*ended.answer), (Some(1), ""));
    assert!(ended.notes.starts_with("error: the gateway is not available: "), "{}", ended.notes);
    assert!(ended.notes.ends_with("; try again in 2 s\n"), "{}", ended.notes);
}

#[tokio::test]
async fn what_is_no_gateway_is_called_so() {
    let mut model = Model::listen();
    for answer in [
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nOh.\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nHi.\n",
    ] {
        let ended = spawn(run(chat(model.address, &[]), "Hello?"));
        model.round().await.write(answer).await;
        let ended = ended.await.unwrap();
        assert_eq!((ended.status, &*ended.answer), (Some(1), ""));
        let expected = format!("error: there is no Tether gateway at http://{} (", model.address);
        assert!(ended.notes.starts_with(&expected), "{}", ended.notes);
    }
}

#[tokio::test]
async fn a_gateway_without_tls_is_not_blamed_for_its_certificate() {
    let gateway = Gateway::start(&Model::listen()).await;
    let url = format!("https://{}", gateway.address);
    let ended = run(chat_at(&url, &[]), "Hello?").await;
    assert_eq!((ended.status, &*ended.answer), (Some(1), ""));
    let expected = "; the address of a gateway without TLS begins with http://\n";
    assert!(ended.notes.ends_with(expected), "{}", ended.notes);
}

#[tokio::test]
async fn what_cannot_be_a_prompt_is_status_2() {
    let away = Away::anywhere();
    for (arguments, input, expected) in [
        (&[][..], " \n", "error: there is no prompt on standard input\n"),
        (&["--session", ".."], "Hello?", "expected an id other than"),
        (&["--session", "a b"], "Hello?", "expected 1 to 128 of the characters"),
        (&["Hello?"], "Hello?", "unexpected argument 'Hello?'"),
    ] {
        let ended = run(chat(away.address(), arguments), input).await;
        assert_eq!((ended.status, &*ended.answer), (Some(2), ""), "{}", ended.notes);
        assert!(ended.notes.contains(expected), "{}", ended.notes);
    }
}

#[tokio::test]
async fn a_prompt_is_utf_8() {
    let away = Away::anywhere();
    for input in [&b"\xff"[..], b"Hell\xc3"] {
        let ended = run(chat(away.address(), &[]), input).await;
        assert_eq!((ended.status, &*ended.answer), (Some(2), ""));
        assert_eq!(ended.notes, "error: the prompt on standard input is not UTF-8\n");
    }
}

#[tokio::test]
async fn a_prompt_has_a_maximum_length() {
    let away = Away::anywhere();
    let longest = "x".repeat(tether::limits::chat::PROMPT_BYTES_MAX);
    for (input, status, expected) in [
        (longest.clone() + "x", 2, "error: the prompt is longer than 16777216 bytes\n"),
        // This one is sent.
        (longest, 1, "error: cannot connect to "),
    ] {
        let ended = run(chat(away.address(), &[]), input).await;
        assert_eq!((ended.status, &*ended.answer), (Some(status), ""));
        assert!(ended.notes.starts_with(expected), "{}", ended.notes);
    }
}
