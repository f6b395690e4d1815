//! The calls of a turn: which are running, and the lines about them.

use serde_json::Value;

use super::clean;
use super::event::{Progress, ToolCompleted, ToolStarted};
use super::paint::{Paint, fit};
use crate::limits::chat::{LINE_CHARS_MAX, TITLE_CHARS_MAX};

/// The calls of a turn.
#[derive(Debug, Default)]
pub(super) struct Calls {
    started: u32,
    running: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// Its number in the turn, which tells calls of the same tool apart.
    number: u32,
    name: String,
    since_ms: u64,
    report: String,
}

/// A line about a call.
#[derive(Debug)]
pub(super) struct Line {
    mark: Mark,
    head: String,
    /// What may be cut.
    rest: String,
}

#[derive(Debug, Clone, Copy)]
enum Mark {
    Started,
    Runs,
    Succeeded,
    Failed,
    Asks,
    /// A line of a result.
    More,
}

impl Calls {
    pub(super) fn start(&mut self, it: &ToolStarted, now_ms: u64) -> Line {
        self.started += 1;
        let call = Call {
            id: it.call_id.clone(),
            number: self.started,
            name: clean::line(&it.tool_name, TITLE_CHARS_MAX),
            since_ms: now_ms,
            report: String::new(),
        };
        let arguments = match it.tool_args.get() {
            "null" => "(long arguments)".to_owned(),
            "{}" => String::new(),
            written => clean::json(written, LINE_CHARS_MAX),
        };
        let line = Line { mark: Mark::Started, head: call.title(), rest: arguments };
        self.running.push(call);
        line
    }

    /// A line if the tool says something new.
    pub(super) fn report(&mut self, it: &Progress) -> Option<Line> {
        let call = self.running.iter_mut().find(|call| call.id == it.call_id)?;
        let message = clean::line(it.message.as_deref().unwrap_or_default(), LINE_CHARS_MAX);
        let of = it.total.map(|total| format!("/{total}")).unwrap_or_default();
        let report = format!("{}{of} {message}", it.done).trim_end().to_owned();
        if report == call.report {
            return None;
        }
        call.report.clone_from(&report);
        Some(Line { mark: Mark::Runs, head: call.title(), rest: report })
    }

    /// The lines about a call's end.
    pub(super) fn end(&mut self, it: &ToolCompleted) -> Vec<Line> {
        let at = self.running.iter().position(|call| call.id == it.call_id);
        let title = match at.map(|at| self.running.remove(at)) {
            Some(call) => call.title(),
            None => clean::line(&it.tool_name, TITLE_CHARS_MAX),
        };
        let attempts = if it.attempts > 1 {
            format!(" after {} attempts", it.attempts)
        } else {
            String::new()
        };
        let head = format!("{title} {}{attempts}", duration(it.duration_ms));
        let result = &it.tool_result;
        let data = &result["data"];
        let (mark, rest) = match result["next_action"].as_str() {
            Some("clarification_needed") => (Mark::Asks, "asks".to_owned()),
            _ if result["success"] == true => (Mark::Succeeded, summary(data)),
            _ => {
                let error = result["error"].as_str().unwrap_or("failed");
                (Mark::Failed, clean::line(error, LINE_CHARS_MAX))
            }
        };
        let mut lines = vec![Line { mark, head, rest }];
        let more = |text: String| Line { mark: Mark::More, head: text, rest: String::new() };
        for text in data["for_user"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let text = clean::text(text).into_owned();
            lines.extend(text.lines().map(|line| more(line.to_owned())));
        }
        for file in data["artifacts"].as_array().into_iter().flatten() {
            lines.extend(listed(file).map(more));
        }
        lines
    }

    /// What the call that began last is doing, and since when.
    pub(super) fn running(&self) -> Option<(String, u64)> {
        let call = self.running.last()?;
        let others = match self.running.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let report = if call.report.is_empty() { "" } else { " " };
        Some((format!("{}{report}{}{others}", call.title(), call.report), call.since_ms))
    }
}

impl Call {
    fn title(&self) -> String {
        format!("#{} {}", self.number, self.name)
    }
}

impl Line {
    /// The line in colour, cut to these columns.
    pub(super) fn painted(&self, paint: Paint, columns: usize) -> String {
        let Self { mark, head, rest } = self;
        let mark = match mark {
            Mark::Started => paint.dim("→"),
            Mark::Runs => paint.dim("…"),
            Mark::Succeeded => paint.green("✓"),
            Mark::Failed => paint.red("✗"),
            Mark::Asks => paint.yellow("?"),
            Mark::More => return format!("    {head}\n"),
        };
        // An error is what the user needs, so it wraps.
        let whole = matches!(self.mark, Mark::Failed);
        let room = columns.saturating_sub(5 + head.chars().count());
        let rest = if whole { rest.clone() } else { fit(rest, room) };
        let gap = if rest.is_empty() { "" } else { " " };
        let rest = if whole { rest } else { paint.dim(&rest) };
        format!("  {mark} {head}{gap}{rest}\n")
    }
}

/// A result on one line.
fn summary(data: &Value) -> String {
    let mut data = data.clone();
    if let Value::Object(fields) = &mut data {
        fields.retain(|name, value| {
            !(matches!(name.as_str(), "for_user" | "artifacts") && value.is_array())
        });
    }
    match &data {
        Value::Null => String::new(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::String(text) => clean::line(text, LINE_CHARS_MAX),
        data => clean::json(&data.to_string(), LINE_CHARS_MAX),
    }
}

/// A file that a tool returned.
fn listed(file: &Value) -> Option<String> {
    let text = |name: &str| Some(clean::line(file[name].as_str()?, LINE_CHARS_MAX));
    let name = text("name").or_else(|| text("kind"))?;
    let place = text("url").or_else(|| text("error"))?;
    Some(format!("file: {name} ({}) {place}", text("mime_type").unwrap_or_default()))
}

fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}
