//! A turn whose process is killed while it runs: the next one goes on with it. Nothing that a client has seen
//! is lost, and no call that changes something is made twice.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::Model;
use crate::support::events::{Frame, names, said};
use crate::support::gateway::STREAM;
use crate::support::model::{DONE, call, finish, text};
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;

/// What the model says, one message after another. Its second call is of this tool.
fn messages(second: &str) -> [String; 3] {
    [
        format!("Let me look. {}", call("look", &json!({"what": "east"}))),
        call(second, &json!({"what": "west"})),
        "Nothing in either place.".to_owned(),
    ]
}

/// Where sessions are kept.
#[derive(Debug)]
enum Kept {
    /// In a file, which the next process opens.
    File,
    /// On a server, which another process uses already.
    Server(RedisServer),
}

/// A model, and tools that note each of their runs in a file. One of them needs an approval.
fn config(model: &Model, folder: &Path, mutates: bool, kept: &Kept) -> String {
    let url = format!("http://{}/v1", model.address);
    let notes = folder.join("notes");
    let sessions = match kept {
        Kept::File => format!("embedded: {{path: {}}}", folder.join("tether.db").display()),
        Kept::Server(server) => format!("redis: {{url: \"{}\", lease_sec: 1}}", server.url()),
    };
    format!(
        "sessions: {{{sessions}}}
upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]
tools:
  builtin: []
  command:
    - name: look
      description: Looks at something.
      command: [sh, -c, 'echo $1 >> $0; echo seen', '{notes}', '{{what}}']
      parameters: {{type: object, properties: {{what: {{type: string}}}}, required: [what]}}
      policy: {{mutates: {mutates}, confirm: never}}
      sandbox: {{mode: 'off'}}
    - name: send
      description: Sends something.
      command: [sh, -c, 'echo $1 >> $0; echo sent', '{notes}', '{{what}}']
      parameters: {{type: object, properties: {{what: {{type: string}}}}, required: [what]}}
      policy: {{mutates: true, confirm: always}}
      sandbox: {{mode: 'off'}}
",
        notes = notes.display(),
    )
}

async fn start(model: &Model, folder: &Path, mutates: bool, kept: &Kept) -> Process {
    Process::start(&config(model, folder, mutates, kept)).await
}

/// Plays the model's side of turns until its gateway is gone. It knows from its prompt where it is.
async fn play(mut model: Model, second: &'static str) {
    loop {
        let round = model.round().await;
        let told = round.request.body["messages"].as_array().unwrap();
        let texts: Vec<&str> = told.iter().filter_map(|it| it["content"].as_str()).collect();
        let prompt = texts.iter().rposition(|text| *text == "Look." || *text == "Go on.");
        let current = &texts[prompt.unwrap()..];
        let all = current.concat();
        let at = usize::from(all.contains("east")) + usize::from(all.contains("west"));
        let mut words = messages(second)[at].clone();
        if current.last().unwrap().contains("Go on with the very next word") {
            let before = current[current.len() - 2];
            let said = |end: &usize| before.ends_with(words[..*end].trim_end());
            words = words.split_off((0..=words.len()).rev().find(said).unwrap());
        }
        let pieces: String =
            words.split_inclusive(' ').map(text).chain([finish("stop"), DONE.into()]).collect();
        round.answer_with(&pieces).await;
    }
}

async fn begin(process: &Process, count: usize) -> Vec<Frame> {
    begin_with(process, &json!({"session_id": "s", "prompt": "Look."}), count).await
}

/// The first `count` events of a turn; fewer if it is over.
async fn begin_with(process: &Process, body: &Value, count: usize) -> Vec<Frame> {
    let mut stream = process.turn(body).await;
    let mut seen = Vec::new();
    while seen.len() < count
        && let Some(frame) = stream.next().await
    {
        seen.push(frame);
    }
    seen
}

#[tokio::test]
async fn a_turn_goes_on_in_the_next_process_wherever_it_is_killed() {
    for mutates in [false, true] {
        kill_everywhere(mutates, || Kept::File).await;
    }
}

#[tokio::test]
async fn a_turn_goes_on_in_another_process_wherever_its_own_is_killed() {
    for mutates in [false, true] {
        kill_everywhere(mutates, || Kept::Server(RedisServer::start())).await;
    }
}

/// Kills a turn's process after each of its events.
async fn kill_everywhere(mutates: bool, keep: impl Fn() -> Kept) {
    let (folder, model, kept) = (tempfile::tempdir().unwrap(), Model::listen(), keep());
    let process = start(&model, folder.path(), mutates, &kept).await;
    let player = tokio::spawn(play(model, "look"));
    let whole = begin(&process, usize::MAX).await;
    assert_eq!(names(&whole).iter().filter(|name| **name == "tool_completed").count(), 2);
    drop(process);
    player.abort();
    for count in 1..=whole.len() {
        kill_after(count, &whole, mutates, &keep()).await;
    }
}

/// Kills a process when its client has seen this many events; another one goes on. `whole` is what the client
/// would have seen.
async fn kill_after(count: usize, whole: &[Frame], mutates: bool, kept: &Kept) {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::listen();
    let other = match kept {
        Kept::File => None,
        Kept::Server(_) => Some(start(&model, folder.path(), mutates, kept).await),
    };
    let process = start(&model, folder.path(), mutates, kept).await;
    let player = tokio::spawn(play(model, "look"));
    let seen = begin(&process, count).await;
    process.signal("KILL");
    process.exit().await;

    // The model server stays where it is, for the process that is there already.
    let (process, player) = if let Some(other) = other {
        (other, player)
    } else {
        player.abort();
        let model = Model::listen();
        let process = start(&model, folder.path(), mutates, kept).await;
        (process, tokio::spawn(play(model, "look")))
    };
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
    let epochs: Vec<&str> = all.iter().filter_map(|it| it.id.split('-').next()).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    assert_eq!(all.last().unwrap().event, "turn_completed", "after {count}");
    assert_eq!(said(&all), said(whole), "after {count}");

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
    assert_eq!((started, told.matches("\"name\":\"look\"").count()), (2, 2), "{told}");
    let completed = all.iter().filter(|frame| frame.event == "tool_completed");
    let successes = completed.filter(|it| it.data["tool_result"]["success"] == true).count();
    let runs = fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    let runs = runs.lines().count();
    if mutates {
        assert!(runs <= started, "no call is made twice, or before it is stored");
        assert!(successes <= runs, "{successes} of {runs}");
    } else {
        assert_eq!(successes, 2, "a lookup that was interrupted is made again");
    }

    // And it goes on.
    let answer = process.post(STREAM, &json!({"session_id": "s", "prompt": "Go on."})).await;
    assert_eq!(answer.status(), 200);
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

/// Whoever comes first takes the interrupted turn over, and everyone else finds it running.
#[tokio::test]
async fn an_interrupted_turn_is_taken_over_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let model = Model::listen();
        let process = start(&model, folder.path(), false, &Kept::File).await;
        let player = tokio::spawn(play(model, "look"));
        let seen = begin(&process, 3).await;
        process.signal("KILL");
        process.exit().await;
        player.abort();

        let model = Model::listen();
        let process = start(&model, folder.path(), false, &Kept::File).await;
        let last = format!("Last-Event-ID: {}", seen.last().unwrap().id);
        let rejoin = async {
            let query =
                format!("session_id=s&turn_id={}", seen[0].data["turn_id"].as_str().unwrap());
            process.rejoin(&query, &[&last]).await
        };
        let body = json!({"session_id": "s", "prompt": "Go on."});
        let (mut stream, transcript, refused) =
            tokio::join!(rejoin, process.get("/api/v1/sessions/s"), process.post(STREAM, &body));
        assert_eq!(refused.status(), 409);
        assert!(transcript.json()["running_turn_id"].is_string(), "{:?}", transcript.json());
        let player = tokio::spawn(play(model, "look"));
        stream.up_to("turn_completed").await;
        let transcript: Value = process.get("/api/v1/sessions/s").await.json();
        assert_eq!(transcript["turns"].as_array().unwrap().len(), 1, "{transcript}");
        player.abort();
    }
}

/// A turn that looks and then asks whether it may send, and the one that is told so.
#[tokio::test]
async fn a_question_and_its_answer_outlive_a_process_wherever_it_is_killed() {
    for keep in [|| Kept::File, || Kept::Server(RedisServer::start())] {
        let whole = ask_and_answer(&keep(), None).await;
        for (turn, frames) in whole.iter().enumerate() {
            for count in 1..=frames.len() {
                let seen = ask_and_answer(&keep(), Some((turn, count))).await;
                let texts = seen.iter().zip(&whole).map(|(seen, whole)| (said(seen), said(whole)));
                for (seen, whole) in texts {
                    assert_eq!(seen, whole, "killed after event {count} of turn {turn}");
                }
            }
        }
    }
}

/// What a client sees of both turns, if the process is killed after some event of one of them.
async fn ask_and_answer(kept: &Kept, killed: Option<(usize, usize)>) -> [Vec<Frame>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::listen();
    let mut process = start(&model, folder.path(), false, kept).await;
    let mut player = tokio::spawn(play(model, "send"));
    let mut body = json!({"session_id": "s", "prompt": "Look."});
    let mut turns = [Vec::new(), Vec::new()];
    for (turn, seen) in turns.iter_mut().enumerate() {
        let count = killed.filter(|(of, _)| *of == turn).map(|(_, count)| count);
        *seen = begin_with(&process, &body, count.unwrap_or(usize::MAX)).await;
        if count.is_some() {
            process.signal("KILL");
            process.exit().await;
            player.abort();
            let model = Model::listen();
            process = start(&model, folder.path(), false, kept).await;
            player = tokio::spawn(play(model, "send"));
            let last = seen.last().unwrap();
            if !last.is_last() {
                let last = format!("Last-Event-ID: {}", last.id);
                seen.extend(process.rejoin("session_id=s", &[&last]).await.rest().await);
            }
        }
        assert!(seen.iter().map(Frame::sequence).eq(1..=seen.len() as u64), "{killed:?}");
        assert_eq!(seen.last().unwrap().event, "turn_completed", "{killed:?}: {seen:?}");
        if turn == 0 {
            let asked = seen.iter().filter(|frame| frame.event == "clarification_needed");
            let [asked] = asked.collect::<Vec<_>>()[..] else { panic!("{killed:?}: {seen:?}") };
            let id = &asked.data["clarification_id"];
            let answer = json!({"clarification_id": id, "selected_option": {"id": "approve"}});
            body = json!({"session_id": "s", "clarification_response": answer});
        }
    }
    let runs = || fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    let sent = runs().matches("west").count();
    // A process that is killed in between may not have come to it, and nobody can tell.
    let may_be_cut = killed.is_some_and(|(turn, _)| turn == 1);
    assert!(sent == 1 || (may_be_cut && sent == 0), "{killed:?}: sent {sent} times");
    let again = process.post(STREAM, &body).await;
    assert!(again.status() >= 400, "{killed:?}: it is answered already");
    assert_eq!(runs().matches("west").count(), sent, "{killed:?}");
    player.abort();
    turns
}
