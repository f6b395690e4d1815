//! Native calls, put together from the pieces of `delta.tool_calls`.
//!
//! The standard writes id and name once, then arguments in pieces, told apart by
//! `index`. Servers depart from it: one index for several calls, one id for several, no
//! index, no id, names in pieces, all of it repeated in each piece or once more at the
//! end, `{}` in front of the arguments, arguments as an object. A
//! call is surely whole only when the model has finished: until then, pieces of several
//! may come in any order. One whose arguments are a whole object is taken for whole
//! as soon as the next begins. Whether a call is valid is not judged here.

mod piece;
#[cfg(test)]
mod tests;

use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::FrameError;
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX, PLACEHOLDER_BYTES_MAX};
use crate::upstream::Delta;

pub use piece::Piece;

/// Assembles the calls of one round.
#[derive(Debug, Default)]
pub struct Assembler {
    calls: Vec<Open>,
    /// The calls before this one were handed out as whole.
    whole: usize,
    bytes: usize,
}

/// A call that is still arriving, as the model makes it.
#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    /// The server's id, by which it may name the call again.
    id: String,
    name: String,
    arguments: String,
    /// Bytes of the arguments that were told.
    told: usize,
}

/// What a piece is about.
enum Place {
    /// The call at this position goes on.
    At(usize),
    /// A call begins.
    New,
    /// A whole call is said once more.
    Repeated,
}

impl Assembler {
    /// Adds a piece, and tells what it adds to which call. Where it begins one, those
    /// before it that nothing can be added to are whole. What repeats a whole call adds
    /// nothing.
    ///
    /// # Errors
    /// Where the calls pass [`NATIVE_CALLS_MAX`] or [`NATIVE_CALL_BYTES_MAX`].
    pub fn push(
        &mut self,
        piece: &Piece,
        mut sink: impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let at = match self.place(piece) {
            Place::Repeated => return Ok(()),
            Place::At(at) => at,
            Place::New if self.calls.len() == NATIVE_CALLS_MAX => {
                return Err(FrameError::Malformed);
            }
            Place::New => {
                self.hand_out(&mut sink, Open::is_surely_whole);
                self.calls.push(Open { index: piece.index, ..Open::default() });
                let at = self.calls.len() - 1;
                sink(Delta::CallStarted { index: index(at) });
                at
            }
        };
        if at < self.whole {
            // White space behind what runs already.
            return Ok(());
        }
        self.bytes += piece.id.len() + piece.name.len() + piece.arguments.len();
        if self.bytes > NATIVE_CALL_BYTES_MAX {
            return Err(FrameError::Malformed);
        }
        let call = &mut self.calls[at];
        call.add(piece);
        if !call.is_placeholder() {
            call.tell(at, &mut sink);
        }
        Ok(())
    }

    /// Hands out all calls that are left. The model has finished.
    pub fn finish(&mut self, mut sink: impl FnMut(Delta<'_>)) {
        self.hand_out(&mut sink, |_| true);
    }

    fn hand_out(&mut self, sink: &mut impl FnMut(Delta<'_>), is_whole: impl Fn(&Open) -> bool) {
        while let Some(call) = self.calls.get_mut(self.whole).filter(|call| is_whole(call)) {
            call.tell(self.whole, sink);
            let (name, arguments) = (&call.name, &call.arguments);
            sink(Delta::CallCompleted { index: index(self.whole), name, arguments });
            self.whole += 1;
        }
    }

    fn place(&self, piece: &Piece) -> Place {
        if self.calls.iter().any(|call| call.is_repeated_by(piece)) {
            return Place::Repeated;
        }
        match self.find(piece) {
            Some(at) if !self.is_behind(at, piece) => Place::At(at),
            _ => Place::New,
        }
    }

    /// The call that a piece is likely to go on with: the one of its index and id, else
    /// the last of its index, else the one of its id. Without an index, a piece without an
    /// id goes on with what came last.
    fn find(&self, piece: &Piece) -> Option<usize> {
        let last = |is_meant: &dyn Fn(&Open) -> bool| self.calls.iter().rposition(is_meant);
        let has_id = |call: &Open| !piece.id.is_empty() && call.id == piece.id;
        if piece.index.is_none() {
            return last(&has_id).or_else(|| self.calls.len().checked_sub(1));
        }
        let has_index = |call: &Open| call.index == piece.index;
        last(&|call| has_index(call) && has_id(call)).or_else(|| last(&has_index)).or_else(|| {
            // One id may stand for several calls, which their indexes tell apart.
            last(&|call| has_id(call) && (call.index.is_none() || piece.name.is_empty()))
        })
    }

    /// Whether a piece that could go on with a call begins another.
    fn is_behind(&self, at: usize, piece: &Piece) -> bool {
        let call = &self.calls[at];
        let has_id = !piece.id.is_empty();
        if has_id && !call.id.is_empty() && piece.id != call.id {
            return true;
        }
        let is_handed_out = at < self.whole;
        if call.is_placeholder() && !is_handed_out && has_id && piece.id == call.id {
            return false;
        }
        let may_begin = !piece.name.is_empty()
            || (has_id && call.id.is_empty())
            || (is_handed_out && !piece.arguments.trim().is_empty());
        // Behind half of the arguments, a name is repeated and an id comes late.
        may_begin && is_whole(&call.arguments)
    }
}

impl Open {
    fn add(&mut self, piece: &Piece) {
        if self.id.is_empty() {
            self.id.clone_from(&piece.id);
        }
        // Servers that repeat themselves repeat the whole name.
        if self.arguments.is_empty() && self.name != piece.name {
            self.name.push_str(&piece.name);
        }
        let begins_anew = piece.arguments.trim_start().starts_with('{');
        if self.is_placeholder() && self.told == 0 && begins_anew {
            self.arguments.clear();
        }
        self.arguments.push_str(&piece.arguments);
    }

    /// Tells what was not told yet of the arguments.
    fn tell(&mut self, at: usize, sink: &mut impl FnMut(Delta<'_>)) {
        if self.told < self.arguments.len() {
            sink(Delta::CallArguments { index: index(at), json: &self.arguments[self.told..] });
            self.told = self.arguments.len();
        }
    }

    /// Whether it is whole and a piece says it once more, or no more than its id. Index
    /// and id tell calls apart where both have them.
    fn is_repeated_by(&self, piece: &Piece) -> bool {
        let has_index = piece.index.is_none() || self.index.is_none() || piece.index == self.index;
        let has_same_id = !piece.id.is_empty() && piece.id == self.id;
        let has_id = has_same_id || piece.id.is_empty() || self.id.is_empty();
        let has_name = piece.name.is_empty() || piece.name == self.name;
        if !(has_index && has_id && has_name) {
            return false;
        }
        if piece.arguments.trim().is_empty() {
            return has_same_id && is_whole(&self.arguments);
        }
        is_whole(&piece.arguments)
            && (piece.arguments == self.arguments
                || (has_same_id && is_same_json(&piece.arguments, &self.arguments)))
    }

    /// Whether its arguments may only hold the place of what is to come: some servers send
    /// `{}` first and what they mean behind it.
    fn is_placeholder(&self) -> bool {
        // Of long ones it is not asked with each piece again: white space has no end.
        self.arguments.len() <= PLACEHOLDER_BYTES_MAX && self.arguments.trim() == "{}"
    }

    /// Whether nothing can be added to it.
    fn is_surely_whole(&self) -> bool {
        !self.is_placeholder() && is_whole(&self.arguments)
    }
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

/// Whether two texts say the same: a server may write its arguments anew at the end.
fn is_same_json(a: &str, b: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    read(a).is_some_and(|a| Some(a) == read(b))
}
