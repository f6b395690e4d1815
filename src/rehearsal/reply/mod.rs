//! What the embedded model says in a round: words, calls, or both.

mod report;
mod talk;

use serde_json::{Value, json};

use self::report::{contact_of, report};
use self::talk::{count_to, introduction, long_answer};
use super::intent::{self, LOOKUP_TOOL, SEND_TOOL, TIME_TOOL, Task};
use super::outcome::Outcome;
use super::scene::Scene;
use crate::call_format::{CallFormat, CallsBefore};
use crate::upstream::OfferedTool;

/// The name that it uses if asked to call a tool that does not exist.
const WRONG_TOOL: &str = "get_time";

/// What it says if the gateway has taken its tools away, as in the last round of a turn.
const NO_MORE_TOOLS: &str = "I cannot call any more tools in this answer, so the rest stays open.";

/// What it says if it has had none from the start. Many a first request is one of these.
const NO_TOOLS: &str = "I have no tools here, so I cannot do that. To give me Tether's tools, ask for \
                        a model whose name does not end in :no-tools, and do not switch tools off \
                        in the request. Programs on Messages get them only if \
                        messages.server_tools is set.";

/// The answer to a conversation, calls included.
pub(super) fn reply(scene: &Scene<'_>, tools: &[OfferedTool], format: &CallFormat) -> String {
    let question = scene.current().question;
    if intent::wants_silence(question) {
        return String::new();
    }
    let reply = Reply { scene, tools, format };
    let answer = if let Some(last) = intent::count_to(question) {
        count_to(last)
    } else if intent::wants_long_answer(question) {
        long_answer()
    } else {
        reply.answer()
    };
    if intent::wants_reasoning(question) {
        let [open, close] = format.row().reasoning[0];
        format!("{open}{}{close}{answer}", reply.reasoning())
    } else {
        answer
    }
}

struct Reply<'r> {
    scene: &'r Scene<'r>,
    tools: &'r [OfferedTool],
    format: &'r CallFormat,
}

/// A call that is still to be made, and the words before it, which may be empty.
struct Planned {
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
        let (offered, missing): (Vec<Planned>, Vec<Planned>) =
            calls.into_iter().partition(|call| self.offers(&call.tool));
        let mut text = self.report_missing(&missing);
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
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        if self.format.row().is_bare() {
            // Without an opener, words before a call would make it part of an answer.
            text.clear();
        }
        let mut before = CallsBefore::default();
        for call in &offered {
            self.push_call(&mut text, call, &mut before);
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// What the user wants, including a choice that they have made since.
    fn tasks(&self) -> Vec<Task> {
        let question = self.scene.current().question;
        if let Some(chosen) = self.scene.chosen() {
            return asked_for(chosen.questions).into_iter().collect();
        }
        let tasks = intent::tasks(question, self.tools);
        match self.scene.named_in_words() {
            Some((name, questions)) if tasks.is_empty() => {
                let carefully = |task| match task {
                    Task::Tell { text, .. } => {
                        Task::Tell { name: name.clone(), text, hasty: false }
                    }
                    other => other,
                };
                asked_for(questions).map(carefully).into_iter().collect()
            }
            _ => tasks,
        }
    }

    /// The next call of each task that is not done.
    fn open_calls(&self, tasks: &[Task]) -> Vec<Planned> {
        let mut outcomes: Vec<&Outcome> = self.scene.current().outcomes.iter().collect();
        let mut calls = Vec::new();
        for task in tasks {
            let done = take(&mut outcomes, task.tool());
            match (task, done) {
                (Task::Tell { name, text, hasty }, lookup) => {
                    if take(&mut outcomes, SEND_TOOL).is_none() {
                        calls.extend(self.tell(name, text, *hasty, lookup));
                    }
                }
                (_, Some(_)) => {}
                (_, None) => calls.push(Planned {
                    words: announcement(task),
                    tool: task.tool().to_owned(),
                    arguments: task.arguments(),
                }),
            }
        }
        calls
    }

    /// A message takes two calls: one for the recipient, unless the user has chosen one, and one
    /// for the message itself. In haste, it makes both at once, and the second takes its id from
    /// the first's result.
    fn tell(&self, name: &str, text: &str, hasty: bool, lookup: Option<&Outcome>) -> Vec<Planned> {
        let send = |words: String, id: Value| Planned {
            words,
            tool: SEND_TOOL.to_owned(),
            arguments: json!({"contact_id": id, "text": text}),
        };
        if let Some(chosen) = self.scene.chosen() {
            return vec![send(format!("Sending it to {}.", chosen.title), json!(chosen.id))];
        }
        if let Some(lookup) = lookup {
            let id = contact_of(lookup.data());
            return id
                .map(|id| send(format!("Sending it to {name}."), json!(id)))
                .into_iter()
                .collect();
        }
        let lookup = |words: String| Planned {
            words,
            tool: LOOKUP_TOOL.to_owned(),
            arguments: json!({"name": name}),
        };
        if hasty {
            // The lookup is the message's first call.
            let call = self.scene.next_call();
            let id = json!({"$result": format!("call_{call}.data.contact_id")});
            let words = format!("Let me find {name} and pass that on.");
            vec![lookup(words), send(String::new(), id)]
        } else {
            vec![lookup(format!("Let me look up {name}."))]
        }
    }

    fn narration(&self, calls: &[Planned]) -> String {
        let outcomes = &self.scene.current().outcomes;
        if outcomes.iter().any(|outcome| outcome.tool == WRONG_TOOL) {
            return format!(
                "There is no tool of that name, as I was just told. {} is the right one.",
                calls.first().map_or(TIME_TOOL, |call| &call.tool)
            );
        }
        let words: Vec<&str> = calls
            .iter()
            .map(|call| call.words.as_str())
            .filter(|words| !words.is_empty())
            .collect();
        match words.as_slice() {
            [] => String::new(),
            [words] => (*words).to_owned(),
            [_, _] => "Let me check both.".to_owned(),
            _ => "Let me check all of that.".to_owned(),
        }
    }

    /// Adds a call in the format, the first one under a wrong name if the user wants that.
    fn push_call(&self, text: &mut String, call: &Planned, before: &mut CallsBefore) {
        let scene = self.scene.current();
        let wrong = call.tool == TIME_TOOL
            && scene.outcomes.is_empty()
            && intent::wants_wrong_tool(scene.question);
        let name = if wrong { WRONG_TOOL } else { &call.tool };
        self.format.push_next_call(text, name, &call.arguments.to_string(), before);
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

    /// What it says instead of calls that it cannot make.
    fn report_missing(&self, calls: &[Planned]) -> String {
        if calls.is_empty() {
            return String::new();
        }
        if self.tools.is_empty() {
            let has_called = !self.scene.current().outcomes.is_empty();
            return if has_called { NO_MORE_TOOLS } else { NO_TOOLS }.to_owned();
        }
        let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
        format!("For that I would need the tool {}, which I was not offered.", names.join(" and "))
    }

    fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Words of tools or people, made safe to quote: a marker or a tag among them would be read as
    /// the model's own.
    fn quote_safely(&self, words: &str) -> String {
        let mut words = words.to_owned();
        for mark in self.format.marks().chain(self.format.row().reasoning_tags()) {
            if !mark.is_empty() {
                words = words.replace(mark, "(a marker)");
            }
        }
        words
    }
}

/// The latest message that one of `questions` (latest first) asked to be sent.
fn asked_for<'q>(questions: impl Iterator<Item = &'q str>) -> Option<Task> {
    let mut tasks = questions.flat_map(|question| intent::tasks(question, &[]));
    tasks.find(|task| matches!(task, Task::Tell { .. }))
}

/// Takes a tool's first outcome out of those that no task has claimed.
fn take<'o>(outcomes: &mut Vec<&'o Outcome>, tool: &str) -> Option<&'o Outcome> {
    let position = outcomes.iter().position(|outcome| outcome.tool == tool)?;
    Some(outcomes.remove(position))
}

fn announcement(task: &Task) -> String {
    match task {
        Task::Time(Some(zone)) => format!("Let me check the time in {zone}."),
        Task::Time(None) => "Let me check the time.".to_owned(),
        Task::Sum(_) => "Let me work that out.".to_owned(),
        Task::Tell { name, .. } => format!("Let me look up {name}."),
        // No words, so that the gateway speaks: the tools have waiting hints.
        Task::Named(_) => String::new(),
    }
}
