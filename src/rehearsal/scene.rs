//! The user's questions and the tools' results, read back from rendered messages.

use super::outcome::Outcome;
use crate::text::{self, is_of_name};
use crate::upstream::{Message, MessagePart, Role};

/// A conversation as the embedded model sees it.
#[derive(Debug, Default)]
pub(super) struct Scene<'m> {
    exchanges: Vec<Exchange<'m>>,
    /// The number of the last call whose result it has read.
    last_call: usize,
}

/// A question of the user and the tool results since.
#[derive(Debug, Default)]
pub(super) struct Exchange<'m> {
    pub(super) question: &'m str,
    pub(super) outcomes: Vec<Outcome>,
}

/// An option that the user chose.
pub(super) struct Chosen<'s, Q> {
    pub(super) id: &'s str,
    pub(super) title: &'s str,
    /// The question that offered the option and the questions before it, latest first.
    pub(super) questions: Q,
}

impl<'m> Scene<'m> {
    pub(super) fn read(messages: &'m [Message]) -> Self {
        let mut scene = Self::default();
        for (position, message) in messages.iter().enumerate() {
            for part in &message.parts {
                match (message.role, part) {
                    (Role::User, MessagePart::Text(words)) => scene.read_user(words),
                    (_, MessagePart::Result { call_id, output }) => {
                        let tool = tool_of(&messages[..position], call_id);
                        scene.last_call += 1;
                        scene.note(Outcome::of_message(tool, output));
                    }
                    _ => {}
                }
            }
        }
        scene.last();
        scene
    }

    /// Reads a user message: the user's words, results, or both in one message if nothing came
    /// between them.
    fn read_user(&mut self, content: &'m str) {
        if let Some(rest) = self.read_lines(content) {
            return self.ask_if_chosen(rest);
        }
        let (mut before, mut after) = (content, "");
        let mut at = 0;
        for line in content.split_inclusive('\n') {
            let start = at;
            at += line.len();
            if let Some((call, outcome)) = Outcome::of_line(line.trim_end()) {
                self.last_call = self.last_call.max(call);
                if after.is_empty() && before.len() == content.len() {
                    before = &content[..start];
                    self.ask(before);
                }
                self.note(outcome);
                after = &content[at..];
            }
        }
        if before.len() == content.len() {
            let question = without_note(content);
            self.exchanges.push(Exchange { question, outcomes: Vec::new() });
        } else {
            self.ask_if_chosen(after);
        }
    }

    /// Reads results given as lines; returns the text after them.
    fn read_lines(&mut self, content: &'m str) -> Option<&'m str> {
        let (outcome, mut rest) = Outcome::of_lines(content)?;
        self.note(outcome);
        while let Some((outcome, next)) = Outcome::of_lines(rest) {
            self.note(outcome);
            rest = next;
        }
        Some(rest)
    }

    /// Treats the text after results as the user's words if it chooses an option.
    fn ask_if_chosen(&mut self, after: &'m str) {
        if self.option_named_in(after, self.exchanges.len()).is_some() {
            self.ask(after);
        }
    }

    fn ask(&mut self, question: &'m str) {
        let question = without_note(question.trim());
        if !question.is_empty() {
            self.exchanges.push(Exchange { question, outcomes: Vec::new() });
        }
    }

    /// Records a result, unless the call was skipped and is still to be made.
    fn note(&mut self, outcome: Outcome) {
        if !outcome.was_skipped() {
            self.last().outcomes.push(outcome);
        }
    }

    /// The number of the next call: calls are numbered across the whole conversation.
    pub(super) const fn next_call(&self) -> usize {
        self.last_call + 1
    }

    /// The exchange to answer.
    pub(super) fn current(&self) -> &Exchange<'m> {
        // Never used: `read` always adds an exchange.
        const NOTHING: &Exchange<'static> = &Exchange { question: "", outcomes: Vec::new() };
        self.exchanges.last().unwrap_or(NOTHING)
    }

    /// The option of an earlier question whose id the user's current message mentions.
    pub(super) fn chosen(&self) -> Option<Chosen<'_, impl Iterator<Item = &'m str> + '_>> {
        let earlier = self.exchanges.len().saturating_sub(1);
        let (at, id, title) = self.option_named_in(self.current().question, earlier)?;
        Some(Chosen { id, title, questions: self.questions_until(at) })
    }

    /// The name in the user's own words, if the last question offered people and the answer
    /// names one without an id. Also the questions before it, latest first.
    pub(super) fn named_in_words(&self) -> Option<(String, impl Iterator<Item = &'m str> + '_)> {
        let at = self.exchanges.len().checked_sub(2)?;
        let options = self.exchanges[at].outcomes.last()?.options();
        let titles: Vec<&str> =
            options.iter().filter_map(|option| option["title"].as_str()).collect();
        let words = self.current().question.split(|char: char| !char.is_alphanumeric());
        let is_of_title = |word: &&str| {
            titles.iter().any(|title| title.split(' ').any(|part| part.eq_ignore_ascii_case(word)))
        };
        let name: Vec<&str> = words.filter(is_of_title).collect();
        (!name.is_empty()).then(|| (name.join(" "), self.questions_until(at)))
    }

    fn questions_until(&self, at: usize) -> impl Iterator<Item = &'m str> + '_ {
        self.exchanges[..=at].iter().rev().map(|exchange| exchange.question)
    }

    /// The option whose id comes last in `words`, among those offered in the first `count`
    /// exchanges. Returns the index of the exchange, the id and the title.
    fn option_named_in(&self, words: &str, count: usize) -> Option<(usize, &str, &str)> {
        let exchanges = self.exchanges[..count].iter().enumerate();
        let options = exchanges.flat_map(|(at, exchange)| {
            let options = exchange.outcomes.iter().flat_map(Outcome::options);
            options.map(move |option| (at, option))
        });
        options
            .filter_map(|(at, option)| {
                let (id, title) = (option["id"].as_str()?, option["title"].as_str()?);
                Some((last_end(words, id)?, id.len(), at, id, title))
            })
            // `c1` also occurs in `c1:work`, but ends earlier. If an option was offered twice,
            // the later offer counts.
            .max_by_key(|(end, length, at, ..)| (*end, *length, *at))
            .map(|(_, _, at, id, title)| (at, id, title))
    }

    fn last(&mut self) -> &mut Exchange<'m> {
        if self.exchanges.is_empty() {
            self.exchanges.push(Exchange::default());
        }
        let last = self.exchanges.len() - 1;
        &mut self.exchanges[last]
    }
}

/// The name of the tool that a tool message answers for (`history: native`).
fn tool_of(before: &[Message], call_id: &str) -> String {
    let calls = before.iter().rev().flat_map(Message::calls);
    let mut answered = calls.filter(|call| call.id == call_id);
    answered.next().map(|call| call.name.clone()).unwrap_or_default()
}

/// The user's words without a note in brackets that the gateway added before them.
fn without_note(words: &str) -> &str {
    match words.split_once(")\n\n") {
        Some((note, rest)) if note.starts_with('(') => rest,
        _ => words,
    }
}

/// The end of the last occurrence of `id` in `words` as a whole word.
fn last_end(words: &str, id: &str) -> Option<usize> {
    text::find_whole(words, id, is_of_name).last().map(|start| start + id.len())
}
