//! Native calls, put together from the pieces of `delta.tool_calls`.
//!
//! The standard writes id and name once, then arguments in pieces, told apart by
//! `index`. Servers depart from it: one index for several calls, no index, no id,
//! names in pieces, all of it repeated in each piece, arguments as an object. A
//! call is surely whole only when the model has finished: until then, pieces of several
//! may come in any order. One whose arguments are a whole object is taken for whole
//! as soon as the next begins. Whether a call is valid is not judged here.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::decode::FrameError;
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX};
use crate::upstream::Delta;

/// A call as the model makes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct NativeCall {
    /// The server's id, by which it may name the call again.
    id: String,
    name: String,
    arguments: String,
}

/// One element of `delta.tool_calls`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Piece<'a> {
    /// Which call it belongs to, where the server counts.
    #[serde(default)]
    pub index: Option<u64>,
    /// The call's id.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// Name and arguments.
    #[serde(borrow, default)]
    pub function: Option<Function<'a>>,
}

/// What a piece says of the call.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Function<'a> {
    /// The tool's name, or a part of it.
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    /// A part of the arguments' text, or all of them as an object.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

/// Assembles the calls of one round.
#[derive(Debug, Default)]
pub struct Assembler {
    calls: Vec<Open>,
    /// The calls before this one were handed out as whole.
    whole: usize,
    bytes: usize,
}

/// A call that is still arriving.
#[derive(Debug)]
struct Open {
    index: Option<u64>,
    call: NativeCall,
}

impl Assembler {
    /// Adds a piece, and tells what it adds to which call. Where it begins one, those
    /// before it that nothing can be added to are whole.
    ///
    /// # Errors
    /// Where it is no piece of a call, or passes [`NATIVE_CALLS_MAX`] or
    /// [`NATIVE_CALL_BYTES_MAX`].
    pub fn push(
        &mut self,
        piece: &Piece<'_>,
        mut sink: impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let id = text(piece.id)?;
        let function = piece.function.unwrap_or_default();
        let name = text(function.name)?;
        let arguments = arguments(function.arguments)?;
        self.bytes += id.len() + name.len() + arguments.len();
        if self.bytes > NATIVE_CALL_BYTES_MAX {
            return Err(FrameError::Malformed);
        }
        let at = match self.find(piece.index, &id, &name) {
            Some(at) => at,
            None if self.calls.len() == NATIVE_CALLS_MAX => return Err(FrameError::Malformed),
            None => {
                self.hand_out(&mut sink, is_surely_whole);
                self.calls.push(Open { index: piece.index, call: NativeCall::default() });
                let at = self.calls.len() - 1;
                sink(Delta::CallStarted { index: index(at) });
                at
            }
        };
        if at < self.whole && !arguments.is_empty() {
            // It may run already, with other arguments.
            return Err(FrameError::Malformed);
        }
        let call = &mut self.calls[at].call;
        if call.id.is_empty() {
            call.id = id;
        }
        // Servers that repeat themselves repeat the whole name.
        if call.arguments.is_empty() && call.name != name {
            call.name.push_str(&name);
        }
        call.arguments.push_str(&arguments);
        if !arguments.is_empty() {
            sink(Delta::CallArguments { index: index(at), json: &arguments });
        }
        Ok(())
    }

    /// Hands out all calls that are left. The model has finished.
    pub fn finish(&mut self, mut sink: impl FnMut(Delta<'_>)) {
        self.hand_out(&mut sink, |_| true);
    }

    fn hand_out(
        &mut self,
        sink: &mut impl FnMut(Delta<'_>),
        is_whole: impl Fn(&NativeCall) -> bool,
    ) {
        while let Some(Open { call, .. }) = self.calls.get(self.whole) {
            if !is_whole(call) {
                return;
            }
            let NativeCall { id: _, name, arguments } = call;
            sink(Delta::CallCompleted { index: index(self.whole), name, arguments });
            self.whole += 1;
        }
    }

    /// The call that a piece goes on with; `None` where it begins one.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        if !id.is_empty()
            && let Some(at) = self.calls.iter().rposition(|open| open.call.id == id)
        {
            return Some(at);
        }
        // Without an index, a piece goes on with what came last.
        let at = match index {
            Some(_) => self.calls.iter().rposition(|open| open.index == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at].call;
        let is_another = if id.is_empty() {
            // A name behind whole arguments begins a call; behind half of them, it
            // is repeated.
            !name.is_empty() && is_whole(&call.arguments)
        } else {
            // An id that comes late, or one of another call.
            !call.id.is_empty() || is_whole(&call.arguments)
        };
        (!is_another).then_some(at)
    }
}

/// Whether nothing can be added to a call. Some servers send `{}` first and what they
/// mean behind it.
fn is_surely_whole(call: &NativeCall) -> bool {
    call.arguments.trim() != "{}" && is_whole(&call.arguments)
}

#[expect(clippy::cast_possible_truncation, reason = "at most NATIVE_CALLS_MAX")]
const fn index(at: usize) -> u32 {
    at as u32
}

/// Whether arguments are a JSON object, so that nothing can follow. Halves are mostly
/// told by their last byte, without being parsed.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && serde_json::from_str::<&RawValue>(arguments).is_ok()
}

/// A string, empty where there is none.
fn text(raw: Option<&RawValue>) -> Result<String, FrameError> {
    let Some(raw) = raw else { return Ok(String::new()) };
    let text: Option<String> =
        serde_json::from_str(raw.get()).map_err(|_| FrameError::Malformed)?;
    Ok(text.unwrap_or_default())
}

/// The arguments' text: what a string holds, or an object as it was written.
fn arguments(raw: Option<&RawValue>) -> Result<String, FrameError> {
    match raw {
        Some(raw) if raw.get().starts_with('{') => Ok(raw.get().to_owned()),
        raw => text(raw),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The calls that come out, with what is told of their arguments on the way.
    #[derive(Debug, Default)]
    struct Heard {
        arguments: Vec<String>,
        calls: Vec<(String, String)>,
    }

    impl Heard {
        fn take(&mut self, delta: Delta<'_>) {
            match delta {
                Delta::CallStarted { index } => {
                    assert_eq!(index as usize, self.arguments.len());
                    self.arguments.push(String::new());
                }
                Delta::CallArguments { index, json } => {
                    assert!(index as usize >= self.calls.len(), "it is not whole yet");
                    self.arguments[index as usize].push_str(json);
                }
                Delta::CallCompleted { index, name, arguments } => {
                    assert_eq!(index as usize, self.calls.len(), "in their order");
                    assert_eq!(self.arguments[index as usize], arguments);
                    self.calls.push((name.to_owned(), arguments.to_owned()));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn assemble(pieces: &[Value]) -> Result<Vec<(String, String)>, FrameError> {
        let (mut assembler, mut heard) = (Assembler::default(), Heard::default());
        for piece in pieces {
            let json = piece.to_string();
            assembler.push(&serde_json::from_str(&json).unwrap(), |delta| heard.take(delta))?;
        }
        assembler.finish(|delta| heard.take(delta));
        assert_eq!(heard.calls.len(), heard.arguments.len());
        Ok(heard.calls)
    }

    #[track_caller]
    fn check(pieces: &Value, expected: &[(&str, &str)]) {
        let owned =
            |(name, arguments): &(&str, &str)| ((*name).to_owned(), (*arguments).to_owned());
        let expected: Vec<_> = expected.iter().map(owned).collect();
        assert_eq!(assemble(pieces.as_array().unwrap()).unwrap(), expected, "{pieces}");
    }

    #[test]
    fn the_standards_form() {
        check(
            &json!([
                {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
                {"index": 0, "function": {"arguments": "{\"x\""}},
                {"index": 0, "function": {"arguments": ":1}"}},
            ]),
            &[("f", "{\"x\":1}")],
        );
        check(&json!([]), &[]);
    }

    #[test]
    fn parallel_calls_are_told_apart_by_index() {
        check(
            &json!([
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
                {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}},
                {"index": 0, "function": {"arguments": "}"}},
                {"index": 1, "function": {"arguments": "\"y\":2}"}},
            ]),
            &[("f", "{}"), ("g", "{\"y\":2}")],
        );
    }

    #[test]
    fn one_index_may_stand_for_several_calls() {
        check(
            &json!([
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
                {"index": 0, "id": "b", "function": {"name": "f", "arguments": "{"}},
                {"index": 0, "function": {"arguments": "}"}},
            ]),
            &[("f", "{}"), ("f", "{}")],
        );
    }

    #[test]
    fn ids_and_indexes_may_be_missing() {
        check(
            &json!([
                {"index": 0, "function": {"name": "f", "arguments": "{}"}},
                {"index": 0, "function": {"name": "f", "arguments": "{}"}},
            ]),
            &[("f", "{}"), ("f", "{}")],
        );
        check(
            &json!([
                {"id": null, "function": {"name": "f", "arguments": "{"}},
                {"function": {"arguments": "}"}},
                {"function": {"name": "g", "arguments": {"x": 1}}},
            ]),
            &[("f", "{}"), ("g", "{\"x\":1}")],
        );
    }

    #[test]
    fn names_come_in_pieces_or_again_and_again() {
        check(
            &json!([
                {"index": 0, "id": "a", "function": {"name": "get_"}},
                {"index": 0, "function": {"name": "time", "arguments": "{}"}},
            ]),
            &[("get_time", "{}")],
        );
        check(
            &json!([
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}},
            ]),
            &[("f", "{}")],
        );
    }

    #[test]
    fn an_id_may_come_late() {
        check(
            &json!([
                {"index": 0, "function": {"name": "f"}},
                {"index": 0, "id": "a", "function": {"arguments": "{}"}},
            ]),
            &[("f", "{}")],
        );
    }

    #[test]
    fn a_call_is_whole_as_soon_as_the_next_begins_and_nothing_can_be_added_to_it() {
        let piece = |index: u8, name: &str, arguments: &str| {
            let piece = json!({"index": index, "function": {"name": name, "arguments": arguments}});
            piece.to_string()
        };
        for (first, whole) in [("{\"x\":1}", 1), ("{\"x\":", 0), ("{}", 0), ("", 0)] {
            let (mut assembler, mut heard) = (Assembler::default(), Heard::default());
            for json in [piece(0, "f", first), piece(1, "g", "")] {
                let piece = serde_json::from_str(&json).unwrap();
                assembler.push(&piece, |delta| heard.take(delta)).unwrap();
            }
            assert_eq!(heard.calls.len(), whole, "{first}");
            let more = piece(0, "", " ");
            let more = assembler.push(&serde_json::from_str(&more).unwrap(), |_| {});
            assert_eq!(more.is_err(), whole == 1, "what was handed out stays as it is");
        }
    }

    #[test]
    fn what_is_no_piece_is_malformed() {
        for piece in [
            json!({"id": 7}),
            json!({"function": {"name": ["f"]}}),
            json!({"function": {"arguments": 7}}),
        ] {
            assert_eq!(assemble(&[piece]), Err(FrameError::Malformed));
        }
    }

    #[test]
    fn calls_are_bounded_in_number_and_size() {
        let calls = |count: usize| -> Vec<Value> {
            (0..count).map(|at| json!({"index": at, "id": at.to_string()})).collect()
        };
        assert_eq!(assemble(&calls(NATIVE_CALLS_MAX)).unwrap().len(), NATIVE_CALLS_MAX);
        assert!(assemble(&calls(NATIVE_CALLS_MAX + 1)).is_err());
        let sized = |bytes: usize| [json!({"function": {"arguments": "x".repeat(bytes)}})];
        assert!(assemble(&sized(NATIVE_CALL_BYTES_MAX)).is_ok());
        assert!(assemble(&sized(NATIVE_CALL_BYTES_MAX + 1)).is_err());
    }

    proptest! {
        /// However arguments are cut, and pieces of parallel calls mixed.
        #[test]
        fn any_cut_assembles_to_the_same_calls(
            texts in prop::collection::vec("[a-z\u{e9}\u{1f9ee}\"\\\\ ]{0,12}", 1..5),
            cuts in prop::collection::vec((0_usize..5, 1_usize..4), 0..60),
        ) {
            let calls: Vec<_> = texts.iter().enumerate().map(|(at, text)| {
                (format!("f{at}"), json!({"x": text}).to_string())
            }).collect();
            let mut pieces: Vec<_> = calls.iter().enumerate().map(|(at, (name, _))| {
                let id = format!("id{at}");
                json!({"index": at, "id": id, "function": {"name": name, "arguments": ""}})
            }).collect();
            let mut rest: Vec<Vec<char>> =
                calls.iter().map(|(_, arguments)| arguments.chars().collect()).collect();
            let last = (0..calls.len()).map(|at| (at, usize::MAX));
            for (at, count) in cuts.into_iter().chain(last) {
                let Some(rest) = rest.get_mut(at) else { continue };
                let taken: String = rest.drain(..count.min(rest.len())).collect();
                pieces.push(json!({"index": at, "function": {"arguments": taken}}));
            }
            prop_assert_eq!(assemble(&pieces).unwrap(), calls);
        }
    }
}
