//! Who asked what and which results came, read back from rendered messages.

use serde_json::Value;

use crate::upstream::{Message, Role};

/// A conversation as the embedded model sees it.
#[derive(Debug, Default)]
pub(super) struct Scene<'m> {
    exchanges: Vec<Exchange<'m>>,
}

/// What a person said, and what tools answered since.
#[derive(Debug, Default)]
pub(super) struct Exchange<'m> {
    pub(super) question: &'m str,
    pub(super) outcomes: Vec<Outcome>,
}

/// What came of one call.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) tool: String,
    result: Value,
}

impl Outcome {
    pub(super) fn success(&self) -> bool {
        self.result["success"] == true
    }

    /// `null` where there is none.
    pub(super) fn data(&self) -> &Value {
        &self.result["data"]
    }

    pub(super) fn error(&self) -> &str {
        self.result["error"].as_str().unwrap_or("it said nothing more")
    }

    fn options(&self) -> &[Value] {
        self.result["clarification"]["options"].as_array().map_or(&[], Vec::as_slice)
    }
}

impl<'m> Scene<'m> {
    pub(super) fn read(messages: &'m [Message]) -> Self {
        let mut scene = Self::default();
        for (position, message) in messages.iter().enumerate() {
            let content = message.content.as_deref().unwrap_or_default();
            match message.role {
                Role::System | Role::Assistant => {}
                Role::Tool => {
                    let tool = tool_of(&messages[..position], message);
                    let result = serde_json::from_str(content).unwrap_or_default();
                    scene.last().outcomes.push(Outcome { tool, result });
                }
                Role::User => {
                    let before = scene.last().outcomes.len();
                    scene.last().outcomes.extend(content.lines().filter_map(outcome_of_line));
                    if scene.last().outcomes.len() == before {
                        scene.exchanges.push(Exchange { question: content, outcomes: Vec::new() });
                    }
                }
            }
        }
        scene.last();
        scene
    }

    /// What is being answered.
    pub(super) fn current(&self) -> &Exchange<'m> {
        // There is one: `read` ends with it.
        const NOTHING: &Exchange<'static> = &Exchange { question: "", outcomes: Vec::new() };
        self.exchanges.last().unwrap_or(NOTHING)
    }

    /// What was said before the current question, the latest first.
    pub(super) fn earlier_questions(&self) -> impl Iterator<Item = &'m str> {
        self.exchanges.iter().rev().skip(1).map(|exchange| exchange.question)
    }

    /// The option of an earlier question to the user that the current words name
    /// by its id: the id and the title.
    pub(super) fn chosen(&self) -> Option<(&str, &str)> {
        let words = self.current().question;
        let earlier = self.exchanges.iter().rev().skip(1);
        let options = earlier.flat_map(|exchange| &exchange.outcomes).flat_map(Outcome::options);
        options
            .filter_map(|option| Some((option["id"].as_str()?, option["title"].as_str()?)))
            .filter(|(id, _)| names(words, id))
            // So that c1:work is not taken for c1.
            .max_by_key(|(id, _)| id.len())
    }

    fn last(&mut self) -> &mut Exchange<'m> {
        if self.exchanges.is_empty() {
            self.exchanges.push(Exchange::default());
        }
        let last = self.exchanges.len() - 1;
        &mut self.exchanges[last]
    }
}

/// The tool that a tool's message answers for, with `history: native`.
fn tool_of(before: &[Message], message: &Message) -> String {
    let calls = before.iter().rev().flat_map(|message| &message.tool_calls);
    let mut answered = calls.filter(|call| Some(&call.id) == message.tool_call_id.as_ref());
    answered.next().map(|call| call.name.clone()).unwrap_or_default()
}

/// A line `{"call":..,"tool":..,"result":{..}}`, with `history: text`.
fn outcome_of_line(line: &str) -> Option<Outcome> {
    if !line.starts_with('{') {
        return None;
    }
    let mut fields: Value = serde_json::from_str(line).ok()?;
    let tool = fields["tool"].as_str()?.to_owned();
    let result = fields.get_mut("result")?.take();
    Some(Outcome { tool, result })
}

/// Whether `words` contain `id` by itself.
fn names(words: &str, id: &str) -> bool {
    let joins = |char: char| char.is_alphanumeric() || "_-".contains(char);
    !id.is_empty()
        && words.match_indices(id).any(|(start, _)| {
            let before = words[..start].chars().next_back();
            let behind = words[start + id.len()..].chars().next();
            !before.is_some_and(joins) && !behind.is_some_and(joins)
        })
}
