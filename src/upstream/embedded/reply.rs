//! What the embedded model says in a round: words, calls, or both.

use serde_json::{Value, json};

use super::intent::{self, LOOKUP_TOOL, SEND_TOOL, SUM_TOOL, TIME_TOOL, Task};
use super::scene::{Outcome, Scene};
use crate::tools::words::cut;
use crate::upstream::OfferedTool;

/// What it calls where a tool that does not exist is wanted.
const WRONG_TOOL: &str = "get_time";

/// Longest data that is quoted from a tool it knows nothing about, in bytes.
const QUOTE_BYTES_MAX: usize = 300;

/// The answer to a conversation, calls included.
pub(super) fn reply(scene: &Scene<'_>, tools: &[OfferedTool], marker: &str) -> String {
    let question = scene.current().question;
    if intent::wants_silence(question) {
        return String::new();
    }
    let reply = Reply { scene, tools, marker };
    let answer = if let Some(last) = intent::count_to(question) {
        count_to(last)
    } else if intent::wants_long_answer(question) {
        long_answer()
    } else {
        reply.answer()
    };
    if intent::wants_reasoning(question) {
        format!("<think>{}</think>{answer}", reply.reasoning())
    } else {
        answer
    }
}

struct Reply<'r> {
    scene: &'r Scene<'r>,
    tools: &'r [OfferedTool],
    marker: &'r str,
}

/// A call that is still to be made, and what is said before it.
struct Call {
    words: String,
    tool: String,
    arguments: Value,
}

impl Reply<'_> {
    fn answer(&self) -> String {
        let tasks = self.tasks();
        let outcomes = &self.scene.current().outcomes;
        if tasks.is_empty() && outcomes.is_empty() {
            return introduction(self.tools);
        }
        let calls = self.open_calls(&tasks);
        if calls.is_empty() {
            return self.quote_safely(&report(outcomes));
        }
        let (offered, missing): (Vec<Call>, Vec<Call>) =
            calls.into_iter().partition(|call| self.offers(&call.tool));
        let mut text = report_missing(&missing, self.tools);
        if offered.is_empty() {
            if !outcomes.is_empty() {
                text = format!("{} {text}", self.quote_safely(&report(outcomes)));
            }
            return text;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&self.quote_safely(&self.narration(&offered)));
        text.push_str("\n\n");
        let calls: Vec<String> = offered.iter().map(|call| self.written(call)).collect();
        text.push_str(&calls.join("\n"));
        text
    }

    /// What is wanted, with a choice that the user has made since in it.
    fn tasks(&self) -> Vec<Task> {
        let question = self.scene.current().question;
        if self.scene.chosen().is_some() {
            let mut earlier =
                self.scene.earlier_questions().flat_map(|question| intent::tasks(question, &[]));
            return earlier.find(|task| matches!(task, Task::Tell { .. })).into_iter().collect();
        }
        intent::tasks(question, self.tools)
    }

    /// The next call of each task that is not done.
    fn open_calls(&self, tasks: &[Task]) -> Vec<Call> {
        let mut outcomes: Vec<&Outcome> = self.scene.current().outcomes.iter().collect();
        let mut calls = Vec::new();
        for task in tasks {
            let done = take(&mut outcomes, task.tool());
            match (task, done) {
                (Task::Tell { name, text }, lookup) => {
                    let sent = take(&mut outcomes, SEND_TOOL).is_some();
                    calls.extend(self.tell(name, text, lookup, sent));
                }
                (_, Some(_)) => {}
                (_, None) => calls.push(Call {
                    words: announcement(task),
                    tool: task.tool().to_owned(),
                    arguments: task.arguments(),
                }),
            }
        }
        calls
    }

    /// A message takes two calls: who it is, unless the user has said so, and
    /// the message itself.
    fn tell(&self, name: &str, text: &str, lookup: Option<&Outcome>, sent: bool) -> Option<Call> {
        let found = lookup.map(|lookup| contact_of(lookup.data()));
        let chosen = self.scene.chosen().map(|(id, title)| (id.to_owned(), title.to_owned()));
        let (id, person) = match (chosen, found) {
            _ if sent => return None,
            (Some(chosen), _) => chosen,
            (None, Some(found)) => (found?, name.to_owned()),
            (None, None) => {
                return Some(Call {
                    words: format!("Let me look up {name}."),
                    tool: LOOKUP_TOOL.to_owned(),
                    arguments: json!({"name": name}),
                });
            }
        };
        Some(Call {
            words: format!("Sending it to {person}."),
            tool: SEND_TOOL.to_owned(),
            arguments: json!({"contact_id": id, "text": text}),
        })
    }

    fn narration(&self, calls: &[Call]) -> String {
        let outcomes = &self.scene.current().outcomes;
        if outcomes.iter().any(|outcome| outcome.tool == WRONG_TOOL) {
            return format!(
                "There is no tool of that name, as I was just told. {} is the right one.",
                calls.first().map_or(TIME_TOOL, |call| &call.tool)
            );
        }
        match calls {
            [call] => call.words.clone(),
            [_, _] => "Let me check both.".to_owned(),
            _ => "Let me check all of that.".to_owned(),
        }
    }

    /// A call as the contract has it, the first one under a wrong name where
    /// that is wanted.
    fn written(&self, call: &Call) -> String {
        let scene = self.scene.current();
        let wrong = call.tool == TIME_TOOL
            && scene.outcomes.is_empty()
            && intent::wants_wrong_tool(scene.question);
        let name = if wrong { WRONG_TOOL } else { &call.tool };
        format!("{} {}", self.marker, json!({"name": name, "arguments": call.arguments}))
    }

    fn reasoning(&self) -> String {
        let outcomes = self.scene.current().outcomes.len();
        let calls = self.open_calls(&self.tasks());
        let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
        let next = match (tools.as_slice(), outcomes) {
            ([], 0) => "No tool is needed: I can only say what I am.".to_owned(),
            ([], _) => "The results are there, so I can answer now.".to_owned(),
            (tools, _) => format!("This needs {}, so I call that first.", tools.join(" and ")),
        };
        format!("The user wants me to think aloud. {next}")
    }

    fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Words that hold what tools or people have said: a marker or tag among
    /// them, taken over as it stands, would be read as the model's own.
    fn quote_safely(&self, words: &str) -> String {
        let mut words = words.to_owned();
        for mark in [self.marker, "<think>", "</think>"] {
            if !mark.is_empty() {
                words = words.replace(mark, "(a marker)");
            }
        }
        words
    }
}

/// Takes the first outcome of a tool out of those that no task has claimed.
fn take<'o>(outcomes: &mut Vec<&'o Outcome>, tool: &str) -> Option<&'o Outcome> {
    let position = outcomes.iter().position(|outcome| outcome.tool == tool)?;
    Some(outcomes.remove(position))
}

/// The id of the one contact that a lookup has found.
fn contact_of(data: &Value) -> Option<String> {
    let id = |contact: &Value| {
        let id = contact["contact_id"].as_str().or_else(|| contact["id"].as_str());
        id.map(str::to_owned)
    };
    let listed = ["contacts", "matches", "results"].iter().find_map(|key| data[key].as_array());
    match listed.map(Vec::as_slice) {
        Some([contact]) => id(contact),
        Some(_) => None,
        None => id(data).or_else(|| id(&data["contact"])),
    }
}

fn announcement(task: &Task) -> String {
    match task {
        Task::Time(Some(zone)) => format!("Let me check the time in {zone}."),
        Task::Time(None) => "Let me check the time.".to_owned(),
        Task::Sum(_) => "Let me work that out.".to_owned(),
        Task::Tell { name, .. } => format!("Let me look up {name}."),
        Task::Named(tool) => format!("Let me ask {tool}."),
    }
}

/// All results in words.
fn report(outcomes: &[Outcome]) -> String {
    let recovered = outcomes.iter().any(Outcome::success);
    let sentences: Vec<String> = outcomes
        .iter()
        // Its mistake was said when it was mended.
        .filter(|outcome| !(recovered && outcome.tool == WRONG_TOOL))
        // The message says who was found.
        .filter(|outcome| !(outcome.tool == LOOKUP_TOOL && contact_of(outcome.data()).is_some()))
        .map(words_of)
        .collect();
    sentences.join(" ")
}

fn words_of(outcome: &Outcome) -> String {
    let data = outcome.data();
    let text = |key: &str| data[key].as_str();
    if !outcome.success() {
        return format!(
            "{} did not work: {}.",
            outcome.tool,
            outcome.error().trim_end_matches('.')
        );
    }
    match (outcome.tool.as_str(), text("timezone"), text("time")) {
        (TIME_TOOL, Some(zone), Some(time)) => return format!("In {zone} it is {time}."),
        (LOOKUP_TOOL, ..) => return "I found nobody of that name, so I sent nothing.".to_owned(),
        (SEND_TOOL, ..) => return "Done: the message is sent.".to_owned(),
        _ => {}
    }
    if let (SUM_TOOL, Some(sum), Some(result)) =
        (outcome.tool.as_str(), text("expression"), text("result"))
    {
        let about = if data["exact"] == false { "about " } else { "" };
        let exactly = text("fraction").map(|fraction| format!(", exactly {fraction}"));
        return format!("{sum} = {about}{result}{}.", exactly.unwrap_or_default());
    }
    format!("{} says: {}", outcome.tool, cut(&data.to_string(), QUOTE_BYTES_MAX))
}

fn report_missing(calls: &[Call], tools: &[OfferedTool]) -> String {
    if calls.is_empty() {
        return String::new();
    }
    if tools.is_empty() {
        return "I cannot call any more tools in this answer, so the rest stays open.".to_owned();
    }
    let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
    format!("For that I would need the tool {}, which I was not offered.", names.join(" and "))
}

fn introduction(tools: &[OfferedTool]) -> String {
    let mut text = "Hello. I am the rehearsal model inside Tether, not a language model: I follow \
                    a script, so that you can watch the gateway work before you connect a real \
                    one. Try one of these:\n\n\
                    - What time is it in Tokyo?\n\
                    - What is 17 * 23, and what time is it in Lisbon?\n\
                    - Try a wrong tool for the time in Paris.\n\
                    - Tell John I'm running late.\n\
                    - Think aloud: what is 2 ^ 64?\n\
                    - Count to 500.\n\n"
        .to_owned();
    if !tools.is_empty() {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        text.extend(["The tools I was offered: ", &names.join(", "), ". "]);
    }
    text.push_str(
        "For real answers start Tether with --upstream and the URL of a model server, such as \
         llama.cpp's http://127.0.0.1:8081/v1, and --model with the model's name.",
    );
    text
}

/// `1, 2, 3.`
fn count_to(last: u32) -> String {
    let numbers: Vec<String> = (1..=last).map(|number| number.to_string()).collect();
    format!("{}.", numbers.join(", "))
}

/// Some minutes of reading, at a human pace.
fn long_answer() -> String {
    const PARAGRAPHS: u32 = 40;
    let paragraphs: Vec<String> = (1..=PARAGRAPHS)
        .map(|number| {
            format!(
                "Paragraph {number} of {PARAGRAPHS}. This text has no meaning, only length: it is \
                 here so that you can leave while it runs, come back, and see that nothing of it \
                 was lost and nothing came twice."
            )
        })
        .collect();
    paragraphs.join("\n\n")
}
