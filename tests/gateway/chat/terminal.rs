//! On a terminal: prompts, answers to questions, and keys.

use serde_json::json;
use tether::app;
use tether::tools::Confirm;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::program::{ANSWER, CTRL_C, CTRL_D, PROMPT, Terminal};
use crate::support::model::call;
use crate::support::{Gateway, Model, ms, within};

#[tokio::test]
async fn prompts_are_answered_until_the_user_leaves() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    let greeting = terminal.line("Hello?").await;
    assert!(greeting.contains(" has 2 tools; session s"), "{greeting}");
    model.answers(&["Hello."]).await;
    terminal.seen.take("Hello.\r\n").await;
    terminal.line("Who am I?").await;
    let told = model.answers(&["You are you."]).await;
    assert!(told.contains("Hello?"), "{told}");
    terminal.seen.take("You are you.\r\n").await;
    terminal.seen.take(PROMPT).await;
    terminal.keys(CTRL_D);
    terminal.seen.take(" --session s\r\n").await;
    assert_eq!(terminal.exit().await, Some(0));
}

#[tokio::test]
async fn lines_that_are_typed_during_an_answer_are_the_next_prompts() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    terminal.line("Count.").await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("One").await;
    terminal.seen.take("One").await;
    terminal.keys("And then?\rAnd after that?\rAnd in the end?\r");
    terminal.seen.take("And in the end?\r\n").await;
    round.end().await;
    for prompt in ["And then?", "And after that?", "And in the end?"] {
        let told = model.answers(&["Well."]).await;
        assert!(told.contains(prompt), "{told}");
    }
    terminal.seen.take(PROMPT).await;
    terminal.keys(CTRL_D);
    assert_eq!(terminal.exit().await, Some(0));
}

#[tokio::test]
async fn an_interrupt_gives_the_prompt_back_and_leaves_there() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut terminal = Terminal::start(gateway.address, &[]);
    terminal.line("Count.").await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("One, two").await;
    terminal.seen.take("One, two").await;
    terminal.keys(CTRL_C);
    round.closed().await;
    terminal.seen.take("\r\ncancelled\r\n").await;
    terminal.line("Go on.").await;
    model.answers(&["Three."]).await;
    terminal.seen.take("Three.\r\n").await;
    terminal.seen.take(PROMPT).await;
    terminal.keys(CTRL_C);
    assert_eq!(terminal.exit().await, Some(0));
}

#[tokio::test]
async fn a_request_to_terminate_cancels_the_turn_and_leaves() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    terminal.line("Count.").await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("One, two").await;
    terminal.seen.take("One, two").await;
    terminal.terminate().await;
    round.closed().await;
    terminal.seen.take(" --session s\r\n").await;
    assert_eq!(terminal.exit().await, Some(0));
}

/// Neither for its tools nor for the session that is resumed.
#[tokio::test]
async fn an_interrupt_ends_the_wait_for_a_gateway_that_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut terminal = Terminal::start(silent.local_addr().unwrap(), &[]);
    let (_held, _) = silent.accept().await.unwrap();
    terminal.keys(CTRL_C);
    assert_eq!(terminal.exit().await, Some(0));

    let mut terminal = Terminal::start(silent.local_addr().unwrap(), &["--session", "s"]);
    let (mut client, _) = silent.accept().await.unwrap();
    let mut asked = [0; 4096];
    let length = client.read(&mut asked).await.unwrap();
    assert!(asked[..length].starts_with(b"GET /api/v1/tools "));
    let tools = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"tools\":[]}";
    client.write_all(tools.as_bytes()).await.unwrap();
    terminal.seen.take("Ctrl-D leaves").await;
    terminal.keys(CTRL_C);
    assert_eq!(terminal.exit().await, Some(0));
}

#[tokio::test]
async fn a_question_is_asked_and_answered_by_number() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.tools.demo = true;
        setup.tools = app::tools(&setup.config).unwrap();
    })
    .await;
    let mut terminal = Terminal::start(gateway.address, &[]);
    terminal.line("Tell John.").await;
    model.answers(&[&call("lookup_contacts", &json!({"name": "John"}))]).await;
    let asked = terminal.seen.take(ANSWER).await;
    assert!(asked.contains("? lookup_contacts (builtin) asks:"), "{asked}");
    assert!(asked.contains("\r\n   2  John Smith  "), "{asked}");
    terminal.keys("7\r");
    terminal.seen.take("Please answer with a number from 1 to 3.").await;
    terminal.seen.take(ANSWER).await;
    terminal.keys("2\r");
    let told = model.answers(&["Told."]).await;
    assert!(told.contains("contact_john_smith"), "{told}");
    terminal.seen.take("Told.\r\n").await;
    terminal.seen.take(PROMPT).await;
}

async fn confirming() -> (Model, Gateway, Terminal) {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.config.tools.confirm = Confirm::Always).await;
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    terminal.line("2 + 2?").await;
    model.answers(&[&call("calculate", &json!({"expression": "2 + 2"}))]).await;
    let asked = terminal.seen.take(ANSWER).await;
    assert!(
        asked.contains("? calculate (builtin) wants to run:\r\n    expression: \"2 + 2\"\r\n"),
        "{asked}"
    );
    (model, gateway, terminal)
}

#[tokio::test]
async fn a_call_is_approved_or_denied() {
    for (answer, is_run) in [("y", true), ("n", false), ("not that sum", false)] {
        let (mut model, _gateway, mut terminal) = confirming().await;
        terminal.keys(&format!("{answer}\r"));
        model.answers(&["Done."]).await;
        let seen = terminal.seen.take("Done.\r\n").await;
        assert_eq!(seen.contains("✓ #1 calculate"), is_run, "{answer}: {seen}");
    }
}

#[tokio::test]
async fn keys_that_were_pressed_before_a_question_do_not_answer_it() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.config.tools.confirm = Confirm::Always).await;
    let mut terminal = Terminal::start(gateway.address, &[]);
    terminal.line("2 + 2?\ry").await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("One moment.\n").await;
    terminal.seen.take("One moment.").await;
    terminal.keys("y\r");
    // The terminal has echoed it, so it is there to be read.
    terminal.seen.take("y\r\n").await;
    round.say(&call("calculate", &json!({"expression": "2 + 2"}))).await;
    round.end().await;
    terminal.seen.take(ANSWER).await;
    terminal.keys("n\r");
    model.answers(&["Not done."]).await;
    let seen = terminal.seen.take("Not done.\r\n").await;
    assert!(!seen.contains("#1 calculate"), "{seen}");
}

#[tokio::test]
async fn an_open_question_is_asked_again_when_the_session_is_resumed() {
    let (mut model, gateway, mut terminal) = confirming().await;
    terminal.keys(CTRL_D);
    assert_eq!(terminal.exit().await, Some(0));
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    let shown = terminal.seen.take(ANSWER).await;
    assert!(shown.contains("1 turn so far\r\n> 2 + 2?\r\n"), "{shown}");
    assert!(shown.contains("? calculate (builtin) wants to run:"), "{shown}");
    terminal.keys("y\r");
    model.answers(&["It is 4."]).await;
    terminal.seen.take("It is 4.\r\n").await;
}

/// A turn that another client has begun.
#[tokio::test]
async fn a_turn_that_runs_is_joined_when_the_session_is_resumed() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (_stream, mut round, _) = gateway.begin_saying(&mut model, "s", "One, two").await;
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    let shown = terminal.seen.take("a turn is running:\r\n").await;
    assert!(shown.contains("0 turns so far\r\n"), "{shown}");
    terminal.seen.take("One, two").await;
    round.say(", three.").await;
    round.end().await;
    terminal.seen.take(", three.\r\n").await;
    terminal.line("And then?").await;
    let told = model.answers(&["Four."]).await;
    assert!(told.contains("One, two, three."), "{told}");
    terminal.seen.take("Four.\r\n").await;
}

#[tokio::test]
async fn a_new_session_knows_nothing_of_the_one_before() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    terminal.line("I am Ada.").await;
    model.answers(&["Hello, Ada."]).await;
    terminal.seen.take("Hello, Ada.\r\n").await;
    terminal.line("/new").await;
    terminal.seen.take("\r\nsession ").await;
    terminal.line("Who am I?").await;
    let told = model.answers(&["Who knows."]).await;
    assert!(!told.contains("Ada"), "{told}");
    terminal.seen.take("Who knows.\r\n").await;
    terminal.seen.take(PROMPT).await;
    terminal.keys(CTRL_D);
    let left = terminal.seen.take("\r\n").await + &terminal.seen.take("\r\n").await;
    assert!(left.contains("to go on: tether chat ") && !left.contains("--session s\r"), "{left}");
}

#[tokio::test]
async fn the_tools_of_the_gateway_are_listed() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut terminal = Terminal::start(gateway.address, &[]);
    terminal.line("/tools").await;
    let listed = terminal.seen.take(PROMPT).await;
    for tool in ["\r\n  calculate  Calculates ", "\r\n  get_current_time  "] {
        assert!(listed.contains(tool), "{listed}");
    }
}

/// Commands, a paste of several lines, and words that a terminal would obey.
#[tokio::test]
async fn what_is_typed_and_what_is_shown_stays_harmless() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut terminal = Terminal::start(gateway.address, &["--session", "s"]);
    terminal.line("/session").await;
    terminal.seen.take("\r\ns\r\n").await;
    terminal.line("/nothing").await;
    terminal.seen.take("unknown command /nothing; /help lists the commands").await;
    terminal.line("\u{1b}[200~one\rtwo\u{1b}[201~").await;
    let round = model.round().await;
    let asked = round.request.body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(asked["content"], "one\ntwo");
    round.answer("a\u{1b}[2Jb\u{7}c\u{202e}d.").await;
    terminal.seen.take("a[2Jbcd.\r\n").await;
    terminal.line("/quit").await;
    assert_eq!(terminal.exit().await, Some(0));
}

/// A request to cancel names the session, so it must not be under way when the next turn begins.
#[tokio::test]
async fn the_next_turn_waits_for_the_answer_to_a_late_interrupt() {
    let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gateway.local_addr().unwrap();
    let mut terminal = Terminal::start(address, &[]);
    let mut client = requested(&gateway, "GET /api/v1/tools ").await;
    let json = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ";
    client.write_all(format!("{json}12\r\n\r\n{{\"tools\":[]}}").as_bytes()).await.unwrap();
    terminal.line("Count.").await;
    let mut turn = requested(&gateway, "POST /api/v1/chat/stream ").await;
    let started = format!(
        "{STREAM_HEAD}id: 1-1\ndata: {}\n\nid: 1-2\ndata: {}\n\n",
        json!({"type": "turn_started", "data": {"turn_id": "t", "model": "m"}}),
        json!({"type": "text_delta", "data": {"text": "One, two"}}),
    );
    turn.write_all(started.as_bytes()).await.unwrap();
    terminal.seen.take("One, two").await;
    terminal.keys(CTRL_C);
    let mut cancel = requested(&gateway, "POST /api/v1/chat/cancel ").await;
    let ended = json!({"type": "turn_completed", "data": {"finish_reason": "stop"}});
    turn.write_all(format!("id: 1-3\ndata: {ended}\n\n").as_bytes()).await.unwrap();
    terminal.line("Go on.").await;
    terminal.seen.take("Go on.").await;
    assert!(timeout(ms(200), gateway.accept()).await.is_err(), "the next turn has begun");
    cancel.write_all(format!("{json}2\r\n\r\n{{}}").as_bytes()).await.unwrap();
    requested(&gateway, "POST /api/v1/chat/stream ").await;
}

pub(super) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n";

/// The next connection, and the request on it, which begins like this.
async fn requested(gateway: &TcpListener, expected: &str) -> TcpStream {
    within(async {
        let (mut client, _) = gateway.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            assert_ne!(client.read_buf(&mut head).await.unwrap(), 0);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with(expected), "{head}");
        client
    })
    .await
}
