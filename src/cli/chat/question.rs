//! A question of a tool, or of the gateway: how it is shown, and what a typed line answers.
//!
//! The gateway checks every answer. This only asks again after an obvious slip, so that a typing
//! mistake approves or refuses nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::clean;
use super::command::command;
use super::form::{Form, Step};
use super::paint::Paint;
use crate::limits::chat::{ARGUMENT_CHARS_MAX, TITLE_CHARS_MAX};

/// A question, as `clarification_needed` and a session's transcript have it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Question {
    pub(super) clarification_id: String,
    tool_name: String,
    r#type: String,
    #[serde(rename = "question")]
    words: String,
    options: Option<Vec<Choice>>,
    schema: Option<Value>,
    url: Option<String>,
    arguments: Option<Box<RawValue>>,
    source: Option<Source>,
    /// A part was too long for its event. The transcript has all of it.
    #[serde(skip)]
    pub(super) is_shortened: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct Choice {
    id: String,
    title: String,
    subtitle: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Source {
    kind: String,
    #[serde(default)]
    name: String,
}

const UNSEEN: &str = "The arguments could not be loaded, so the call can only be denied";

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Dialog<'q> {
    question: &'q Question,
    form: Option<Form>,
}

impl Question {
    /// # Errors
    /// If it is not a question.
    pub(super) fn parse(data: &str) -> Result<Self, serde_json::Error> {
        let mut question: Self = serde_json::from_str(data)?;
        let fields: Map<String, Value> = serde_json::from_str(data)?;
        question.is_shortened = fields.keys().any(|name| name.ends_with("_truncated"));
        Ok(question)
    }

    fn options(&self) -> &[Choice] {
        self.options.as_deref().unwrap_or_default()
    }

    fn is_confirmation(&self) -> bool {
        self.r#type == "confirmation"
    }

    /// Whether it asks to approve a call whose arguments nobody has seen.
    fn is_unseen(&self) -> bool {
        self.is_confirmation() && self.arguments.is_none()
    }

    /// Whether words may answer it. Confirmations take them for a no.
    fn takes_text(&self) -> bool {
        matches!(&*self.r#type, "text" | "choice_or_text" | "confirmation")
            || (self.options().is_empty() && self.url.is_none())
    }

    /// The question and its options, in lines.
    pub(super) fn shown(&self, paint: Paint) -> String {
        let mut shown = String::new();
        let mut line = |text: &str| {
            shown.push_str(text);
            shown.push('\n');
        };
        let tool = clean::line(&self.tool_name, TITLE_CHARS_MAX);
        let source = self.source.as_ref().map(|Source { kind, name }| {
            let named = if name.is_empty() { kind.clone() } else { format!("{kind} {name}") };
            format!(" ({})", clean::line(&named, TITLE_CHARS_MAX))
        });
        let who = format!("{tool}{}", source.unwrap_or_default());
        let asks = if self.is_confirmation() { "wants to run" } else { "asks" };
        line(&format!("{} {} {asks}:", paint.yellow("?"), paint.bold(&who)));
        if let Some(arguments) = &self.arguments {
            // Whoever approves a call has to see all of it.
            let chars_max = if self.is_confirmation() { usize::MAX } else { ARGUMENT_CHARS_MAX };
            for (name, value) in members(arguments) {
                let name = clean::line(&name, chars_max);
                line(&format!("    {name}: {}", clean::json(value.get(), chars_max)));
            }
        } else if self.is_confirmation() {
            line("    (its arguments are too long to be shown)");
        }
        for text in clean::text(&self.words).lines() {
            line(&format!("  {text}"));
        }
        if let Some(url) = &self.url {
            line(&format!("  {}", clean::line(url, ARGUMENT_CHARS_MAX)));
        }
        if !self.is_form() {
            for (number, Choice { title, subtitle, .. }) in (1..).zip(self.options()) {
                let title = clean::line(title, TITLE_CHARS_MAX);
                let subtitle = subtitle.as_deref().unwrap_or_default();
                let subtitle = clean::line(subtitle, TITLE_CHARS_MAX);
                let gap = if subtitle.is_empty() { "" } else { "  " };
                line(&format!("  {number:>2}  {title}{gap}{}", paint.dim(&subtitle)));
            }
        }
        shown
    }

    /// How it can be answered, in a line.
    fn hint(&self) -> String {
        if self.is_unseen() {
            return format!("{UNSEEN}. n: no. Other words mean no, too, and the model reads them.");
        }
        if self.is_confirmation() {
            return "y: yes, n: no, a: yes, and always in this session. Other words mean no, and \
                    the model reads them."
                .to_owned();
        }
        let how = if self.is_form() {
            "Fill in each field; an empty line takes the default."
        } else {
            match (self.options().is_empty(), self.takes_text()) {
                (true, _) => "Answer in your own words.",
                (false, true) => "Answer with a number, or in your own words.",
                (false, false) => "Answer with a number.",
            }
        };
        format!("{how} /decline says no, /cancel puts the question aside.")
    }

    /// Whether there is more to fill in than one of the options.
    fn is_form(&self) -> bool {
        let fields = self.schema.as_ref().and_then(|schema| schema["properties"].as_object());
        fields.is_some_and(|fields| self.options().is_empty() || fields.len() > 1)
    }

    /// The `clarification_response` to send.
    fn response(&self, key: &str, value: Value) -> Step {
        let mut response = json!({ "clarification_id": self.clarification_id });
        response[key] = value;
        Step::Answer(response)
    }

    fn chosen(&self, typed: &str) -> Option<&Choice> {
        let options = self.options();
        let is = |text: &str| text.eq_ignore_ascii_case(typed);
        if self.is_confirmation() {
            let id = match typed.to_ascii_lowercase().as_str() {
                "y" | "yes" => "approve",
                "a" | "always" => "approve_session",
                "n" | "no" => "deny",
                _ => "",
            };
            if let Some(choice) = options.iter().find(|choice| choice.id == id) {
                return Some(choice);
            }
        }
        if let Ok(number) = typed.parse::<usize>() {
            return options.get(number.checked_sub(1)?);
        }
        // Two options may share a title: then it chooses none.
        let mut titled = options.iter().filter(|choice| is(&choice.title));
        match (titled.next(), titled.next()) {
            (Some(choice), None) => Some(choice),
            _ => options.iter().find(|choice| choice.id == typed),
        }
    }

    fn slip(&self) -> Step {
        if self.is_unseen() {
            return Step::Ask(format!("  {UNSEEN}. Please answer with n.\n"));
        }
        let count = self.options().len();
        Step::Ask(match (self.is_confirmation(), count) {
            (true, _) => "  Please answer with y, n or a.\n".to_owned(),
            (false, 0) => "  Please write an answer.\n".to_owned(),
            (false, count) => format!("  Please answer with a number from 1 to {count}.\n"),
        })
    }
}

impl<'q> Dialog<'q> {
    pub(super) fn new(question: &'q Question) -> Self {
        let schema = question.schema.as_ref().filter(|_| question.is_form());
        Self { question, form: schema.map(Form::new) }
    }

    /// The prompt for the next line.
    pub(super) fn prompt(&self) -> String {
        self.form.as_ref().map_or_else(|| "? ".to_owned(), Form::prompt)
    }

    /// What is to be read before the first answer.
    pub(super) fn opening(&self, paint: Paint) -> String {
        let hint = paint.dim(&format!("  {}", self.question.hint()));
        let field = self.form.as_ref().map(Form::shown).unwrap_or_default();
        format!("{hint}\n{field}")
    }

    /// Takes a typed line.
    pub(super) fn answer(&mut self, line: &str) -> Step {
        let question = self.question;
        let typed = line.trim();
        match typed {
            "/decline" => return question.response("action", json!("decline")),
            "/cancel" => return question.response("action", json!("cancel")),
            _ => {}
        }
        if let Some(form) = &mut self.form {
            return match form.take(typed) {
                Step::Answer(content) => question.response("content", content),
                ask @ Step::Ask(_) => ask,
            };
        }
        if let Some(choice) = question.chosen(typed) {
            if question.is_unseen() && choice.id != "deny" {
                return question.slip();
            }
            return question.response("selected_option", json!({ "id": choice.id }));
        }
        // A single word, or a number that is not offered, is more likely a slip.
        let is_word = !typed.contains(char::is_whitespace);
        let is_slip = typed.is_empty()
            || command(typed).is_some()
            || (question.is_confirmation() && is_word)
            || (!question.options().is_empty() && typed.parse::<f64>().is_ok());
        if is_slip || !question.takes_text() {
            return question.slip();
        }
        question.response("text", json!(typed))
    }
}

/// The members of an object, each as it is written. Empty for anything else.
fn members(json: &RawValue) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(json.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Paint = Paint { is_on: false };
    const NONE: Value = Value::Null;

    fn question(more: &Value) -> Question {
        let mut question = json!({
            "clarification_id": "c.1", "call_id": "call_1", "tool_name": "look",
            "source": {"kind": "builtin"}, "type": "choice", "question": "Which?", "options": [],
        });
        for (name, value) in more.as_object().unwrap() {
            question[name] = value.clone();
        }
        Question::parse(&question.to_string()).unwrap()
    }

    fn two(kind: &str) -> Question {
        question(&json!({"type": kind, "options": [
            {"id": "id_a", "title": "Ann", "subtitle": "Boston", "confidence": 0.9},
            {"id": "id_b", "title": "Bob"}]}))
    }

    fn confirmation() -> Question {
        question(&json!({
            "type": "confirmation", "tool_name": "delete", "source": {"kind": "mcp", "name": "files"},
            "question": "May it run?", "arguments": {"path": "/a\u{202e}b", "count": 12_345_678_901_234_567_u64},
            "options": [{"id": "approve", "title": "Yes"}, {"id": "approve_session", "title": "Always"},
                        {"id": "deny", "title": "No"}],
        }))
    }

    /// The answer to a line, or `null` if it is asked again.
    #[track_caller]
    fn check(question: &Question, line: &str, expected: &Value) {
        let answered = match Dialog::new(question).answer(line) {
            Step::Answer(mut answer) => {
                assert_eq!(
                    answer.as_object_mut().unwrap().remove("clarification_id").unwrap(),
                    "c.1"
                );
                answer
            }
            Step::Ask(_) => Value::Null,
        };
        assert_eq!(&answered, expected, "{line:?}");
    }

    fn option(id: &str) -> Value {
        json!({"selected_option": {"id": id}})
    }

    #[test]
    fn options_are_chosen_by_number_title_or_id() {
        for line in ["1", " 1 ", "Ann", "ANN", "id_a"] {
            check(&two("choice"), line, &option("id_a"));
        }
        for line in ["", "0", "3", "-1", "1.5", "Anna", "Ann or Bob", "/help"] {
            check(&two("choice"), line, &NONE);
        }
    }

    #[test]
    fn a_title_that_two_options_share_chooses_none() {
        let twins = question(
            &json!({"options": [{"id": "1a", "title": "Jo"}, {"id": "1b", "title": "Jo"}]}),
        );
        check(&twins, "Jo", &NONE);
        check(&twins, "2", &option("1b"));
    }

    #[test]
    fn words_answer_what_takes_words() {
        let text = |words: &str| json!({ "text": words });
        check(&two("choice_or_text"), "the one in Rome", &text("the one in Rome"));
        check(&two("choice_or_text"), "neither", &text("neither"));
        check(&two("choice_or_text"), "2", &option("id_b"));
        check(&two("choice_or_text"), "7", &NONE);
        check(&question(&json!({"type": "text"})), " 7 ", &text("7"));
        check(&question(&json!({"type": "text"})), "", &NONE);
        check(&question(&json!({"type": "text"})), "/etc/hosts", &text("/etc/hosts"));
        check(&two("choice_or_text"), "/etc/hosts", &text("/etc/hosts"));
        check(&question(&json!({"type": "text"})), "/help", &NONE);
    }

    #[test]
    fn any_question_can_be_declined_or_put_aside() {
        for question in [two("choice"), confirmation(), question(&json!({"type": "text"}))] {
            check(&question, "/decline", &json!({"action": "decline"}));
            check(&question, "/cancel ", &json!({"action": "cancel"}));
        }
    }

    #[test]
    fn nothing_is_approved_by_a_slip() {
        for (line, id) in
            [("y", "approve"), ("YES", "approve"), ("1", "approve"), ("a", "approve_session")]
        {
            check(&confirmation(), line, &option(id));
        }
        check(&confirmation(), "n", &option("deny"));
        for line in ["", "ye", "ok", "4", "yy"] {
            check(&confirmation(), line, &NONE);
        }
        check(&confirmation(), "not that file", &json!({"text": "not that file"}));
    }

    #[test]
    fn a_call_that_can_be_approved_is_shown_whole() {
        let long = "x".repeat(2 * ARGUMENT_CHARS_MAX);
        let mut question = confirmation();
        let arguments = json!({ "path": &long, &long: 1 }).to_string();
        question.arguments = Some(RawValue::from_string(arguments).unwrap());
        assert_eq!(question.shown(PLAIN).matches(&long).count(), 2);
        question.r#type = "text".to_owned();
        assert_eq!(question.shown(PLAIN).matches(&long).count(), 0);
    }

    #[test]
    fn a_call_cannot_be_approved_unseen() {
        let mut unseen = confirmation();
        unseen.arguments = None;
        for line in ["y", "a", "yes", "always", "1", "2", "approve", "approve_session", "Yes", ""] {
            check(&unseen, line, &NONE);
        }
        for line in ["n", "no", "3", "deny"] {
            check(&unseen, line, &option("deny"));
        }
        check(&unseen, "not that file", &json!({"text": "not that file"}));
        let mut dialog = Dialog::new(&unseen);
        assert!(dialog.opening(PLAIN).contains(UNSEEN));
        let Step::Ask(again) = dialog.answer("y") else { panic!("it was approved") };
        assert!(again.contains(UNSEEN), "{again}");
    }

    #[test]
    fn a_confirmation_shows_who_would_run_and_with_what() {
        assert_eq!(
            confirmation().shown(PLAIN),
            "? delete (mcp files) wants to run:\n    count: 12345678901234567\n    path: \"/a\\u202eb\"\n  \
             May it run?\n   1  Yes\n   2  Always\n   3  No\n"
        );
    }

    #[test]
    fn a_choice_shows_its_options() {
        assert_eq!(
            two("choice").shown(PLAIN),
            "? look (builtin) asks:\n  Which?\n   1  Ann  Boston\n   2  Bob\n"
        );
        let hint = "  Answer with a number. /decline says no, /cancel puts the question aside.\n";
        assert_eq!(Dialog::new(&two("choice")).opening(PLAIN), hint);
    }

    #[test]
    fn a_question_cannot_write_on_the_terminal() {
        let hostile = question(&json!({
            "question": "a\u{1b}[2Jb\r\u{202e}", "tool_name": "x\u{1b}]0;y\u{7}\nz", "url": "http://h/\u{1b}[1m",
            "options": [{"id": "i", "title": "t\u{1b}[A\n> ", "subtitle": "s\u{8}"}],
        }));
        let shown = hostile.shown(PLAIN);
        assert!(!shown.contains(|c: char| c != '\n' && c.is_control()), "{shown:?}");
        assert_eq!(shown.lines().count(), 4, "{shown}");
    }

    #[test]
    fn a_shortened_question_is_noticed() {
        let short = question(
            &json!({"type": "confirmation", "arguments": null, "arguments_truncated": 20_000}),
        );
        assert!(short.is_shortened);
        assert!(short.shown(PLAIN).contains("too long to be shown"));
        assert!(!confirmation().is_shortened);
    }
}
