//! A turn whose process is killed while it runs: the next one goes on with it. Nothing that a client has seen
//! is lost, and no call that changes something is made twice.

use std::fs;
use std::mem::take;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::embedded_store::upstream;
use super::redis_store::until_closed;
use crate::support::client::request;
use crate::support::events::{Frame, names, said};
use crate::support::gateway::STREAM;
use crate::support::model::{DONE, call, finish, text};
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::support::{EventStream, Model, within};

/// What the model says, one message after another. Its second call is of this tool.
fn messages(second: &str) -> [String; 3] {
    [
        format!("Let me look. {}", call("look", &json!({"what": "east"}))),
        call(second, &json!({"what": "west"})),
        "Nothing in either setup.".to_owned(),
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

/// What happens to the gateway that runs a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    /// It stands still for longer than its lease, as on a machine that sleeps, and then wakes up.
    Stopped,
}

async fn begin(process: &Process, count: usize) -> (EventStream, Vec<Frame>) {
    begin_with(process, &json!({"session_id": "s", "prompt": "Look."}), count).await
}

/// The first `count` events of a turn; fewer if it is over.
async fn begin_with(process: &Process, body: &Value, count: usize) -> (EventStream, Vec<Frame>) {
    let mut stream = process.turn(body).await;
    let mut seen = Vec::new();
    while seen.len() < count
        && let Some(frame) = stream.next().await
    {
        seen.push(frame);
    }
    (stream, seen)
}

#[tokio::test]
async fn a_turn_goes_on_in_the_next_process_wherever_it_is_killed() {
    for mutates in [false, true] {
        interrupt_everywhere(Fate::Killed, mutates, || Kept::File).await;
    }
}

#[tokio::test]
async fn a_turn_goes_on_in_another_process_wherever_its_own_is_killed() {
    for mutates in [false, true] {
        interrupt_everywhere(Fate::Killed, mutates, || Kept::Server(RedisServer::start())).await;
    }
}

#[tokio::test]
async fn a_turn_goes_on_in_another_process_wherever_its_own_stands_still() {
    let keep = || Kept::Server(RedisServer::start());
    let lookups = interrupt_everywhere(Fate::Stopped, false, keep).await;
    let changes = interrupt_everywhere(Fate::Stopped, true, keep).await;
    assert!(lookups + changes > 0.0, "no late write was refused, so this test shows nothing");
}

/// Interrupts a turn after each of its events. Returns how many writes were refused that came too late.
async fn interrupt_everywhere(fate: Fate, mutates: bool, keep: impl Fn() -> Kept) -> f64 {
    let (folder, model, kept) = (tempfile::tempdir().unwrap(), Model::listen(), keep());
    let process = start(&model, folder.path(), mutates, &kept).await;
    let player = tokio::spawn(play(model, "look"));
    let (_, whole) = begin(&process, usize::MAX).await;
    assert_eq!(names(&whole).iter().filter(|name| **name == "tool_completed").count(), 2);
    drop(process);
    player.abort();
    let mut refused = 0.0;
    for count in 1..=whole.len() {
        refused += interrupt_after(count, fate, &whole, mutates, &keep()).await;
    }
    refused
}

/// Interrupts a process when its client has seen this many events; another one goes on. `whole` is what the client
/// would have seen. Returns how many writes were refused that came too late.
async fn interrupt_after(
    count: usize,
    fate: Fate,
    whole: &[Frame],
    mutates: bool,
    kept: &Kept,
) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::listen();
    let mut setup = Setup { folder: folder.path(), kept, mutates, other: None, watching: None };
    setup.prepare(&model).await;
    let owner = start(&model, folder.path(), mutates, kept).await;
    let player = tokio::spawn(play(model, "look"));
    let (stream, seen) = begin(&owner, count).await;
    setup.watch(&seen[0]).await;
    let owner = match fate {
        Fate::Killed => {
            owner.signal("KILL");
            owner.exit().await;
            None
        }
        Fate::Stopped => {
            owner.stop().await;
            Some(owner)
        }
    };
    let (process, player) = setup.next(player, "look").await;
    let all = setup.read_on(&process, seen).await;
    assert_eq!(said(&all), said(whole), "after {count}");
    let epochs: Vec<&str> = all.iter().filter_map(|it| it.id.split('-').next()).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    let refused = match owner {
        Some(owner) => wake_up(&owner, stream, &all[count..], &process, &setup).await,
        None => 0.0,
    };
    setup.check(&process, &all).await;
    check_next_turn(&process).await;
    player.abort();
    refused
}

/// Lets a gateway go on that stood still while another one has ended its turn. Its client hears at most what was
/// stored before, `rest` being what it had not heard. Returns how many of its writes were refused.
async fn wake_up(
    owner: &Process,
    stream: EventStream,
    rest: &[Frame],
    successor: &Process,
    setup: &Setup<'_>,
) -> f64 {
    let (transcript, notes) = (successor.get("/api/v1/sessions/s").await.json(), setup.notes());
    owner.signal("CONT");
    let mut late = until_closed(stream).await;
    // A write that was under way has no answer in time, so it may take the store for gone. It does not say then that the
    // turn is over, but that the session has to be read.
    if late.last().is_some_and(|end| end.data["code"] == "store_unavailable") {
        late.pop();
    }
    assert_eq!(late[..], rest[..late.len()]);
    // It may have stored the end itself.
    if rest.last().is_some_and(|end| !end.id.starts_with("1-")) {
        assert!(late.iter().all(|frame| frame.id.starts_with("1-")), "{late:?}");
        within(until_refused(owner)).await;
    }
    assert_eq!(successor.get("/api/v1/sessions/s").await.json(), transcript);
    assert_eq!(setup.notes(), notes, "a gateway without the lease began a call");
    owner.metric("tether_store_writes_fenced_total").await
}

/// Waits until a gateway has heard that the turn is no longer its: when it renews its lease or, if it had come to the
/// end, when it stores that.
async fn until_refused(owner: &Process) {
    while owner.metric("tether_leases_lost_total").await < 1.0
        && owner.metric("tether_store_writes_fenced_total").await < 1.0
    {}
}

/// The gateways of one run, and a reader on the one that goes on.
struct Setup<'t> {
    folder: &'t Path,
    kept: &'t Kept,
    mutates: bool,
    /// The gateway that runs already, if there can be two.
    other: Option<Process>,
    /// A reader there from the beginning.
    watching: Option<EventStream>,
}

impl Setup<'_> {
    async fn prepare(&mut self, model: &Model) {
        if matches!(self.kept, Kept::Server(_)) {
            self.other = Some(start(model, self.folder, self.mutates, self.kept).await);
        }
    }

    /// Has the turn read on the other gateway, whose first event this is.
    async fn watch(&mut self, first: &Frame) {
        let turn = first.data["turn_id"].as_str().unwrap();
        let query = format!("session_id=s&turn_id={turn}");
        if let Some(other) = &self.other {
            self.watching = Some(other.rejoin(&query, &[]).await);
        }
    }

    /// Where the turn goes on, and who plays its model.
    async fn next(
        &mut self,
        player: JoinHandle<()>,
        second: &'static str,
    ) -> (Process, JoinHandle<()>) {
        if let Some(other) = self.other.take() {
            // The model server stays where it is.
            return (other, player);
        }
        player.abort();
        let model = Model::listen();
        let process = start(&model, self.folder, self.mutates, self.kept).await;
        (process, tokio::spawn(play(model, second)))
    }

    /// Reads the turn to its end after what was seen of it. Whoever was there all the time has seen the same.
    async fn read_on(&mut self, process: &Process, mut seen: Vec<Frame>) -> Vec<Frame> {
        let last = seen.last().unwrap();
        if !last.is_last() {
            let last = format!("Last-Event-ID: {}", last.id);
            seen.extend(process.rejoin("session_id=s", &[&last]).await.rest().await);
        }
        if let Some(mut watching) = self.watching.take() {
            assert_eq!(watching.rest().await, seen);
        }
        let sequences = seen.iter().map(Frame::sequence);
        assert!(sequences.eq(1..=seen.len() as u64), "no gap and no repetition: {seen:?}");
        assert_eq!(seen.last().unwrap().event, "turn_completed", "{seen:?}");
        seen
    }

    /// What the tools have noted.
    fn notes(&self) -> String {
        fs::read_to_string(self.folder.join("notes")).unwrap_or_default()
    }

    /// Checks that `all` is what is kept of the turn, and that its calls were made as they should be.
    async fn check(&self, process: &Process, all: &[Frame]) {
        // The same from the beginning, and in the conversation.
        assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, all);
        let transcript = process.get("/api/v1/sessions/s").await.json();
        let turns = transcript["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 1, "{transcript}");
        let told = turns[0].to_string();
        for word in said(all).split_whitespace() {
            assert!(told.contains(word), "{word} in {told}");
        }
        let started = all.iter().filter(|frame| frame.event == "tool_started").count();
        assert_eq!((started, told.matches("\"name\":\"look\"").count()), (2, 2), "{told}");
        let completed = all.iter().filter(|frame| frame.event == "tool_completed");
        let successes = completed.filter(|it| it.data["tool_result"]["success"] == true).count();
        let runs = self.notes().lines().count();
        if self.mutates {
            assert!(runs <= started, "no call is made twice, or before it is stored");
            assert!(successes <= runs, "{successes} of {runs}");
        } else {
            assert_eq!(successes, 2, "a lookup that was interrupted is made again");
        }
    }
}

/// The conversation goes on.
async fn check_next_turn(process: &Process) {
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
}

/// Whoever comes first takes the interrupted turn over, and everyone else finds it running.
#[tokio::test]
async fn an_interrupted_turn_is_taken_over_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let model = Model::listen();
        let process = start(&model, folder.path(), false, &Kept::File).await;
        let player = tokio::spawn(play(model, "look"));
        let (_, seen) = begin(&process, 3).await;
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
    let mut setup =
        Setup { folder: folder.path(), kept, mutates: false, other: None, watching: None };
    setup.prepare(&model).await;
    let mut process = start(&model, folder.path(), false, kept).await;
    let mut player = tokio::spawn(play(model, "send"));
    let mut body = json!({"session_id": "s", "prompt": "Look."});
    let mut turns = [Vec::new(), Vec::new()];
    for (turn, seen) in turns.iter_mut().enumerate() {
        let count = killed.filter(|(of, _)| *of == turn).map(|(_, count)| count);
        (_, *seen) = begin_with(&process, &body, count.unwrap_or(usize::MAX)).await;
        setup.watch(&seen[0]).await;
        if count.is_some() {
            process.signal("KILL");
            process.exit().await;
            (process, player) = setup.next(player, "send").await;
        }
        *seen = setup.read_on(&process, take(seen)).await;
        if turn == 0 {
            let asked = seen.iter().filter(|frame| frame.event == "clarification_needed");
            let [asked] = asked.collect::<Vec<_>>()[..] else { panic!("{killed:?}: {seen:?}") };
            let id = &asked.data["clarification_id"];
            let answer = json!({"clarification_id": id, "selected_option": {"id": "approve"}});
            body = json!({"session_id": "s", "clarification_response": answer});
        }
    }
    let sent = setup.notes().matches("west").count();
    // A process that is killed in between may not have come to it, and nobody can tell.
    let may_be_cut = killed.is_some_and(|(turn, _)| turn == 1);
    assert!(sent == 1 || (may_be_cut && sent == 0), "{killed:?}: sent {sent} times");
    let again = process.post(STREAM, &body).await;
    assert!(again.status() >= 400, "{killed:?}: it is answered already");
    assert_eq!(setup.notes().matches("west").count(), sent, "{killed:?}");
    player.abort();
    turns
}

/// The next process makes no call that its client wanted to be asked about.
#[tokio::test]
async fn the_user_still_approves_the_calls_of_a_turn_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = Model::listen();
    let process = start(&model, folder.path(), false, &Kept::File).await;
    let body = json!({"session_id": "s", "prompt": "Look.", "confirm": "always"});
    let (_, seen) = begin_with(&process, &body, 1).await;
    assert_eq!(names(&seen), ["turn_started"]);
    let round = model.round().await;
    process.signal("KILL");
    process.exit().await;
    drop(round);

    let process = start(&model, folder.path(), false, &Kept::File).await;
    let player = tokio::spawn(play(model, "look"));
    let frames = process.rejoin("session_id=s", &[]).await.rest().await;
    assert!(names(&frames).contains(&"clarification_needed"), "{frames:?}");
    assert!(!folder.path().join("notes").exists(), "nothing runs before the user approves it");
    player.abort();
}

/// Some servers let a model go on with what it was saying; others, and those that refuse, are asked in words.
#[tokio::test]
async fn a_model_goes_on_in_the_middle_of_its_message() {
    for (owner, is_refused) in [("vllm", false), ("vllm", true), ("library", true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut model = Model::listen();
        model.list("fake", owner);
        let process = start(&model, folder.path(), false, &Kept::File).await;
        let mut stream = process.turn(&json!({"session_id": "s", "prompt": "Look."})).await;
        let mut round = model.round().await;
        round.begin().await;
        round.say("It is ").await;
        stream.up_to_text("It is ").await;
        process.signal("KILL");
        process.exit().await;
        drop(round);

        let process = start(&model, folder.path(), false, &Kept::File).await;
        let mut round = model.round().await;
        if owner == "vllm" {
            let body = &round.request.body;
            let last = body["messages"].as_array().unwrap().last().unwrap();
            assert_eq!(
                (&last["role"], &body["continue_final_message"]),
                (&json!("assistant"), &json!(true))
            );
            assert!(last["content"].as_str().unwrap().ends_with("It is"), "{last}");
            if is_refused {
                round.write("HTTP/1.1 400 No\r\nContent-Length: 3\r\n\r\nbad").await;
                round.keep();
                round = model.round().await;
            }
        }
        let told = round.request.body["messages"].to_string();
        assert_eq!(told.contains("Go on with the very next word"), is_refused, "{told}");
        round.answer("noon.").await;
        let frames = process.rejoin("session_id=s", &[]).await.rest().await;
        assert_eq!(said(&frames), "It is noon.", "{owner} {is_refused}");
    }
}

/// The turn that answers need not offer the tool: the next process lends it again.
#[tokio::test]
async fn an_approved_lookup_is_made_again_though_its_turn_offers_no_tools() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::listen();
    let config = config(&model, folder.path(), false, &Kept::File);
    let config = config.replace("mutates: true", "mutates: false");
    // Each call waits until its note is read.
    let notes = folder.path().join("notes");
    assert!(Command::new("mkfifo").arg(&notes).status().unwrap().success());
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let process = Process::start(&config).await;
    let player = tokio::spawn(play(model, "send"));
    let east = {
        let notes = notes.clone();
        thread::spawn(move || read(&notes))
    };
    let (_, seen) = begin(&process, usize::MAX).await;
    assert_eq!(east.join().unwrap(), "east\n");
    let asked = seen.iter().find(|frame| frame.event == "clarification_needed").unwrap();
    let id = &asked.data["clarification_id"];
    let answer = json!({"clarification_id": id, "selected_option": {"id": "approve"}});
    let body = json!({"session_id": "s", "clarification_response": answer, "tools": []});
    let mut stream = process.turn(&body).await;
    stream.up_to("tool_started").await;
    process.signal("KILL");
    process.exit().await;

    let process = Process::start(&config).await;
    // The first call may still be there.
    thread::spawn(move || {
        loop {
            read(&notes);
        }
    });
    let frames = process.rejoin("session_id=s", &[]).await.rest().await;
    let done = frames.iter().find(|frame| frame.event == "tool_completed").unwrap();
    assert_eq!(done.data["tool_result"]["success"], true, "{done:?}");
    player.abort();
}

/// An answer that is held to a form does not go on. Whoever polls for it gets what there is, as its stream does.
#[tokio::test]
async fn a_response_that_was_cut_short_keeps_its_words() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tether.db");
    let upstream = upstream(&model).replace("model: fake", "model: fake, constrain: none");
    let sessions = format!("sessions: {{embedded: {{path: {}}}}}\n", file.display());
    let config = upstream + &sessions + "tools: {builtin: []}\n";
    let process = Process::start(&config).await;
    let body = json!({"model": "fake", "input": "Hi?", "background": true,
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}});
    let response = process.post("/v1/responses", &body).await.json();
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    let mut round = model.round().await;
    round.begin().await;
    round.say("{\"a\": ").await;
    let mut reader = process.client().await;
    reader.send(request("GET", &format!("{path}?stream=true"), &[], "")).await;
    reader.head().await;
    reader.until("response.output_text.delta").await;
    process.signal("KILL");
    process.exit().await;

    let process = Process::start(&config).await;
    process.get(&format!("{path}?stream=true")).await;
    let response = process.get(&path).await.json();
    assert_eq!(response["status"], "failed", "{response}");
    assert_eq!(response["output"][0]["content"][0]["text"], "{\"a\": ", "{response}");
}
