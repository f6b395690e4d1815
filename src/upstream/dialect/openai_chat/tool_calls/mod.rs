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

use crate::limits::upstream::PLACEHOLDER_BYTES_MAX;
use crate::upstream::Delta;
use crate::upstream::frame_error::FrameError;
use crate::upstream::native_calls::{NativeCall, NativeCalls, is_json};

pub use piece::Piece;

/// Assembles the calls of one round.
#[derive(Debug, Default)]
pub struct Assembler {
    calls: NativeCalls<Names>,
}

/// What a server calls a call.
#[derive(Debug, Default)]
struct Names {
    index: Option<u64>,
    /// Empty where it gives none.
    id: String,
}

type Open = NativeCall<Names>;

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
    /// Where there are too many calls, or too many bytes of them.
    pub fn push(
        &mut self,
        piece: &Piece,
        mut sink: impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let at = match self.place(piece) {
            Place::Repeated => return Ok(()),
            Place::At(at) => at,
            Place::New => {
                self.calls.complete(&mut sink, is_surely_whole);
                let named = Names { index: piece.index, id: String::new() };
                self.calls.begin(named, &mut sink)?
            }
        };
        if self.calls.is_completed(at) {
            // White space after what runs already.
            return Ok(());
        }
        self.calls.count(piece.id.len() + piece.name.len() + piece.arguments.len())?;
        let call = self.calls.get_mut(at);
        add(call, piece);
        if !is_placeholder(call) {
            self.calls.tell(at, &mut sink);
        }
        Ok(())
    }

    /// Hands out all calls that are left. The model has finished.
    pub fn finish(&mut self, mut sink: impl FnMut(Delta<'_>)) {
        self.calls.complete(&mut sink, |_| true);
    }

    fn open(&self) -> &[Open] {
        self.calls.as_slice()
    }

    fn place(&self, piece: &Piece) -> Place {
        if self.open().iter().any(|call| is_repeated_by(call, piece)) {
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
        let last = |is_meant: &dyn Fn(&Open) -> bool| self.open().iter().rposition(is_meant);
        let has_id = |call: &Open| !piece.id.is_empty() && call.named.id == piece.id;
        if piece.index.is_none() {
            return last(&has_id).or_else(|| self.open().len().checked_sub(1));
        }
        let has_index = |call: &Open| call.named.index == piece.index;
        last(&|call| has_index(call) && has_id(call)).or_else(|| last(&has_index)).or_else(|| {
            // One id may stand for several calls, which their indexes tell apart.
            last(&|call| has_id(call) && (call.named.index.is_none() || piece.name.is_empty()))
        })
    }

    /// Whether a piece that could go on with a call begins another.
    fn is_behind(&self, at: usize, piece: &Piece) -> bool {
        let call = &self.open()[at];
        let has_id = !piece.id.is_empty();
        if has_id && !call.named.id.is_empty() && piece.id != call.named.id {
            return true;
        }
        let is_handed_out = self.calls.is_completed(at);
        if is_placeholder(call) && !is_handed_out && has_id && piece.id == call.named.id {
            return false;
        }
        let may_begin = !piece.name.is_empty()
            || (has_id && call.named.id.is_empty())
            || (is_handed_out && !piece.arguments.trim().is_empty());
        // Behind half of the arguments, a name is repeated and an id comes late.
        may_begin && is_whole(&call.arguments)
    }
}

fn add(call: &mut Open, piece: &Piece) {
    if call.named.id.is_empty() {
        call.named.id.clone_from(&piece.id);
    }
    // Servers that repeat themselves repeat the whole name.
    if call.arguments.is_empty() && call.name != piece.name {
        call.name.push_str(&piece.name);
    }
    let begins_anew = piece.arguments.trim_start().starts_with('{');
    if is_placeholder(call) && call.is_untold() && begins_anew {
        call.arguments.clear();
    }
    call.arguments.push_str(&piece.arguments);
}

/// Whether a call is whole and a piece says it once more, or no more than its id. Index
/// and id tell calls apart where both have them.
fn is_repeated_by(call: &Open, piece: &Piece) -> bool {
    let Names { index, id } = &call.named;
    let has_index = piece.index.is_none() || index.is_none() || piece.index == *index;
    let has_same_id = !piece.id.is_empty() && piece.id == *id;
    let has_id = has_same_id || piece.id.is_empty() || id.is_empty();
    let has_name = piece.name.is_empty() || piece.name == call.name;
    if !(has_index && has_id && has_name) {
        return false;
    }
    if piece.arguments.trim().is_empty() {
        return has_same_id && is_whole(&call.arguments);
    }
    is_whole(&piece.arguments)
        && (piece.arguments == call.arguments
            || (has_same_id && is_same_json(&piece.arguments, &call.arguments)))
}

/// Whether a call's arguments may only hold the place of what is to come: some servers send
/// `{}` first and what they mean after it.
fn is_placeholder(call: &Open) -> bool {
    // Of long ones it is not asked with each piece again: white space has no end.
    call.arguments.len() <= PLACEHOLDER_BYTES_MAX && call.arguments.trim() == "{}"
}

/// Whether nothing can be added to a call.
fn is_surely_whole(call: &Open) -> bool {
    !is_placeholder(call) && is_whole(&call.arguments)
}

/// Whether arguments are a JSON object, so that nothing can follow. Halves are mostly
/// told by their last byte, without being parsed.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && is_json(arguments)
}

/// Whether two texts say the same: a server may write its arguments anew at the end.
fn is_same_json(a: &str, b: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    read(a).is_some_and(|a| Some(a) == read(b))
}
