//! Native calls, put together from the pieces of `delta.tool_calls`.
//!
//! The standard writes id and name once, then arguments in pieces, told apart by
//! `index`. Servers depart from it: one index for several calls, no index, no id,
//! names in pieces, all of it repeated in each piece, arguments as an object. A
//! call is whole only when the model has finished: until then, pieces of several
//! may come in any order. Whether a call is valid is not judged here.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::decode::FrameError;
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX};

/// A call as the model made it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeCall {
    /// The server's id; empty where it gave none.
    pub id: String,
    /// The tool's name; empty where it gave none.
    pub name: String,
    /// The arguments' text, mostly a JSON object.
    pub arguments: String,
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
    bytes: usize,
}

/// A call that is still arriving.
#[derive(Debug)]
struct Open {
    index: Option<u64>,
    call: NativeCall,
}

impl Assembler {
    /// Adds a piece; returns the position of the call that it belongs to.
    ///
    /// # Errors
    /// Where it is no piece of a call, or passes [`NATIVE_CALLS_MAX`] or
    /// [`NATIVE_CALL_BYTES_MAX`].
    pub fn push(&mut self, piece: &Piece<'_>) -> Result<usize, FrameError> {
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
                self.calls.push(Open { index: piece.index, call: NativeCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at].call;
        if call.id.is_empty() {
            call.id = id;
        }
        // Servers that repeat themselves repeat the whole name.
        if call.arguments.is_empty() && call.name != name {
            call.name.push_str(&name);
        }
        call.arguments.push_str(&arguments);
        Ok(at)
    }

    /// Whether nothing has come.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All calls, in the order in which they began. The model has finished.
    pub fn take(&mut self) -> Vec<NativeCall> {
        self.bytes = 0;
        std::mem::take(&mut self.calls).into_iter().map(|open| open.call).collect()
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

    fn assemble(pieces: &[Value]) -> Result<Vec<NativeCall>, FrameError> {
        let mut assembler = Assembler::default();
        for piece in pieces {
            let json = piece.to_string();
            assembler.push(&serde_json::from_str(&json).unwrap())?;
        }
        Ok(assembler.take())
    }

    fn call(id: &str, name: &str, arguments: &str) -> NativeCall {
        NativeCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[track_caller]
    fn check(pieces: &Value, expected: &[(&str, &str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(id, name, arguments)| call(id, name, arguments)).collect();
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
            &[("a", "f", "{\"x\":1}")],
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
            &[("a", "f", "{}"), ("b", "g", "{\"y\":2}")],
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
            &[("a", "f", "{}"), ("b", "f", "{}")],
        );
    }

    #[test]
    fn ids_and_indexes_may_be_missing() {
        check(
            &json!([
                {"index": 0, "function": {"name": "f", "arguments": "{}"}},
                {"index": 0, "function": {"name": "f", "arguments": "{}"}},
            ]),
            &[("", "f", "{}"), ("", "f", "{}")],
        );
        check(
            &json!([
                {"id": null, "function": {"name": "f", "arguments": "{"}},
                {"function": {"arguments": "}"}},
                {"function": {"name": "g", "arguments": {"x": 1}}},
            ]),
            &[("", "f", "{}"), ("", "g", "{\"x\":1}")],
        );
    }

    #[test]
    fn names_come_in_pieces_or_again_and_again() {
        check(
            &json!([
                {"index": 0, "id": "a", "function": {"name": "get_"}},
                {"index": 0, "function": {"name": "time", "arguments": "{}"}},
            ]),
            &[("a", "get_time", "{}")],
        );
        check(
            &json!([
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}},
            ]),
            &[("a", "f", "{}")],
        );
    }

    #[test]
    fn an_id_may_come_late() {
        check(
            &json!([
                {"index": 0, "function": {"name": "f"}},
                {"index": 0, "id": "a", "function": {"arguments": "{}"}},
            ]),
            &[("a", "f", "{}")],
        );
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
                call(&format!("id{at}"), &format!("f{at}"), &json!({"x": text}).to_string())
            }).collect();
            let mut pieces: Vec<_> = calls.iter().enumerate().map(|(at, call)| {
                json!({"index": at, "id": call.id, "function": {"name": call.name, "arguments": ""}})
            }).collect();
            let mut rest: Vec<Vec<char>> =
                calls.iter().map(|call| call.arguments.chars().collect()).collect();
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
