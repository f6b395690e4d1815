//! The body of the fuzz target `upstream_answer`; an ordinary test replays its corpus.

use super::dialect::{Decode, Kind, Options, openai_chat};
use super::frame_error::FrameError;
use super::models::Models;
use super::sse;
use super::{ChatRequest, Delta};

/// The calls of an answer, as they were reported.
#[derive(Debug)]
struct Calls {
    /// Whether a call may complete with other arguments than its pieces: then those at the end count.
    may_differ: bool,
    /// The arguments of each call so far.
    begun: Vec<String>,
    completed: usize,
}

/// What an answer says, with adjacent words of one kind merged.
#[derive(Debug, Default, PartialEq)]
struct Said {
    /// Words, with the kind of each run.
    words: Vec<(&'static str, String)>,
    others: Vec<String>,
    failed: Option<FrameError>,
}

/// Target `upstream_answer`: calls begin and complete in order with the arguments that were reported, nothing
/// follows the end, and neither the cuts nor the decoder's memo change what is said.
///
/// The first byte chooses the API, the second how the answer is cut.
///
/// # Panics
/// If that does not hold.
pub fn upstream_answer(data: &[u8]) {
    let Some((&[api, size], answer)) = data.split_first_chunk() else { return };
    let [chat, responses, completion] = Kind::ALL.map(|(_, kind)| kind);
    let kind = match api % 4 {
        0 => chat,
        1 => responses,
        2 => completion,
        _ => return check_models(answer),
    };
    let said = |decoder: &mut dyn Decode, size| said(kind, decoder, answer, size);
    let decoder = || kind.dialect(Options::default()).decoder(&ChatRequest::default());
    let whole = said(&mut *decoder(), answer.len());
    let cut = said(&mut *decoder(), usize::from(size % 32) + 1);
    assert_eq!(whole, cut, "cut every {} bytes", size % 32 + 1);
    if kind == chat {
        let parsed = said(&mut openai_chat::Decoder::without_memo(), answer.len());
        assert_eq!(whole, parsed, "without the memo");
    }
}

/// A list of models is read the same if unknown members are added.
fn check_models(body: &[u8]) {
    let Ok(text) = std::str::from_utf8(body) else { return };
    let models = Models::read(text, "m");
    let Ok(serde_json::Value::Object(list)) = serde_json::from_str(text) else {
        return assert_eq!(models, None, "no list");
    };
    if let Some(rest) = text.trim_start().strip_prefix('{').filter(|_| !list.is_empty()) {
        assert_eq!(Models::read(&format!(r#"{{"unheard-of":true,{rest}"#), "m"), models);
    }
}

/// Reads an answer in chunks of this size, up to its end or its failure.
fn said(kind: Kind, decoder: &mut dyn Decode, answer: &[u8], size: usize) -> Said {
    let mut frames = sse::Decoder::new();
    // Only this API repeats a call at its end.
    let may_differ = kind == Kind::OpenaiResponses;
    let mut calls = Calls { may_differ, begun: Vec::new(), completed: 0 };
    let mut said = Said::default();
    for mut chunk in answer.chunks(size.max(1)) {
        while let Ok(Some(frame)) = frames.next_frame(&mut chunk) {
            let outcome = decoder.decode(&frame, &mut |delta| {
                calls.take(&delta);
                said.take(&delta);
            });
            said.failed = outcome.err();
            if said.failed.is_some() || decoder.is_done() {
                return said;
            }
        }
    }
    said
}

impl Said {
    fn take(&mut self, delta: &Delta<'_>) {
        let (kind, text) = match *delta {
            Delta::Text(text) => ("text", text),
            Delta::Reasoning(text) => ("reasoning", text),
            _ => return self.others.push(format!("{} {delta:?}", self.words.len())),
        };
        match self.words.last_mut() {
            Some((last, words)) if *last == kind => words.push_str(text),
            _ => self.words.push((kind, text.to_owned())),
        }
    }
}

impl Calls {
    fn take(&mut self, delta: &Delta<'_>) {
        match *delta {
            Delta::CallStarted { index } => {
                assert_eq!(index as usize, self.begun.len(), "calls begin in order");
                self.begun.push(String::new());
            }
            Delta::CallArguments { index, json } => {
                assert!(index as usize >= self.completed, "arguments of a complete call");
                self.begun[index as usize].push_str(json);
            }
            Delta::CallCompleted { index, arguments, .. } => {
                assert_eq!(index as usize, self.completed, "calls complete in order");
                let told = &self.begun[self.completed];
                let is_told = told.is_empty() || told == arguments;
                assert!(is_told || self.may_differ, "{told:?} became {arguments:?}");
                self.completed += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_upstream_answer() {
        crate::corpus::replay("upstream_answer", upstream_answer);
    }
}
