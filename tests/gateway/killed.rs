//! A turn whose process is killed while it runs: nothing that a client has seen is lost, no call is made
//! twice, and the conversation goes on.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::Model;
use crate::support::events::{Frame, names, said};
use crate::support::model::{DONE, call, finish, text};
use crate::support::process::Process;

/// A model that looks twice and then answers, and a tool that notes each of its runs in a file.
fn config(model: &Model, folder: &Path) -> String {
    let url = format!("http://{}/v1", model.address);
    let notes = folder.join("notes");
    format!(
        "upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]
tools:
  builtin: []
  command:
    - name: look
      description: Looks at something.
      command: [sh, -c, 'echo $1 >> $0; echo seen', '{notes}', '{{what}}']
      parameters: {{type: object, properties: {{what: {{type: string}}}}, required: [what]}}
      policy: {{mutates: false}}
      sandbox: {{mode: 'off'}}
",
        notes = notes.display(),
    )
}

async fn start(model: &Model, folder: &Path) -> Process {
    Process::start_with(&config(model, folder), |command| {
        command.arg("--state").arg(folder.join("state"));
    })
    .await
}

/// Plays the model's side of turns until its gateway is gone.
async fn play(mut model: Model) {
    loop {
        let round = model.round().await;
        let body = round.request.body.to_string();
        let words = match (body.contains("east"), body.contains("west")) {
            (false, _) => format!("Let me look. {}", call("look", &json!({"what": "east"}))),
            (true, false) => call("look", &json!({"what": "west"})),
            (true, true) => "Nothing in either place.".to_owned(),
        };
        let pieces: String =
            words.split_inclusive(' ').map(text).chain([finish("stop"), DONE.into()]).collect();
        round.answer_with(&pieces).await;
    }
}

/// The first `count` events of a turn; fewer if it is over.
async fn begin(process: &Process, count: usize) -> Vec<Frame> {
    let mut stream = process.turn(&json!({"session_id": "s", "prompt": "Look."})).await;
    let mut seen = Vec::new();
    while seen.len() < count
        && let Some(frame) = stream.next().await
    {
        seen.push(frame);
    }
    seen
}

#[tokio::test]
async fn nothing_that_was_seen_is_lost_wherever_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::listen();
    let process = start(&model, folder.path()).await;
    let player = tokio::spawn(play(model));
    let whole = begin(&process, usize::MAX).await;
    assert_eq!(names(&whole).iter().filter(|name| **name == "tool_completed").count(), 2);
    drop(process);
    player.abort();
    for count in 1..=whole.len() {
        kill_after(count).await;
    }
}

/// Kills a process when its client has seen this many events, and starts another one.
async fn kill_after(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::listen();
    let process = start(&model, folder.path()).await;
    let player = tokio::spawn(play(model));
    let seen = begin(&process, count).await;
    process.signal("KILL");
    process.exit().await;
    player.abort();

    let model = Model::listen();
    let process = start(&model, folder.path()).await;
    let last = seen.last().unwrap();
    let rest = if last.is_last() {
        Vec::new()
    } else {
        let last = format!("Last-Event-ID: {}", last.id);
        process.rejoin("session_id=s", &[&last]).await.rest().await
    };
    let all = [seen, rest].concat();
    let sequences: Vec<u64> = all.iter().map(Frame::sequence).collect();
    let expected: Vec<u64> = (1..=all.len() as u64).collect();
    assert_eq!(sequences, expected, "no gap and no repetition after {count}");
    let last = all.last().unwrap();
    match &*last.event {
        "turn_completed" => {}
        "turn_failed" => {
            assert_eq!(last.data["code"], "internal");
            assert_eq!(last.data["retryable"], true);
        }
        other => panic!("{other} ends the turn after {count}"),
    }

    // The same from the beginning, and in the conversation.
    assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, all);
    let transcript = process.get("/api/v1/sessions/s").await.json();
    let turns = transcript["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1, "{transcript}");
    let told = turns[0].to_string();
    for word in said(&all).split_whitespace() {
        assert!(told.contains(word), "{word} in {told}");
    }
    let started = all.iter().filter(|frame| frame.event == "tool_started").count();
    assert_eq!(told.matches("\"name\":\"look\"").count(), started, "{told}");
    let runs = fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    assert!(runs.lines().count() <= started, "no call is made twice, or before it is stored");

    // And it goes on.
    let player = tokio::spawn(play(model));
    let mut stream = process.turn(&json!({"session_id": "s", "prompt": "Go on."})).await;
    stream.up_to("turn_completed").await;
    let transcript: Value = process.get("/api/v1/sessions/s").await.json();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 2);
    let transcript = transcript.to_string();
    let after = transcript.split("\"call_id\":\"").skip(1);
    let mut ids: Vec<&str> = after.filter_map(|rest| rest.split('"').next()).collect();
    let calls = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), calls, "no call id is used twice: {transcript}");
    player.abort();
}

/// Whoever comes first ends the interrupted turn. Nobody else may take the session from the next one.
#[tokio::test]
async fn a_turn_that_begins_while_another_one_is_ended_is_kept() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let model = Model::listen();
        let process = start(&model, folder.path()).await;
        let player = tokio::spawn(play(model));
        let seen = begin(&process, 3).await;
        process.signal("KILL");
        process.exit().await;
        player.abort();

        let model = Model::listen();
        let process = start(&model, folder.path()).await;
        let player = tokio::spawn(play(model));
        let last = format!("Last-Event-ID: {}", seen.last().unwrap().id);
        let rejoin = async {
            let query =
                format!("session_id=s&turn_id={}", seen[0].data["turn_id"].as_str().unwrap());
            process.rejoin(&query, &[&last]).await.rest().await
        };
        let body = json!({"session_id": "s", "prompt": "Go on."});
        let turn = async { process.turn(&body).await.up_to("turn_completed").await };
        let (rest, transcript, next) =
            tokio::join!(rejoin, process.get("/api/v1/sessions/s"), turn);
        assert!(rest.last().unwrap().is_last(), "{rest:?}");
        assert!(!transcript.json()["turns"].as_array().unwrap().is_empty());
        let id = next[0].data["turn_id"].clone();
        let transcript: Value = process.get("/api/v1/sessions/s").await.json();
        let turns = transcript["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 2, "{transcript}");
        assert_eq!(turns[1]["turn_id"], id);
        player.abort();
    }
}
