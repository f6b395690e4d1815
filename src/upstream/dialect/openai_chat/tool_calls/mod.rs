//! Native calls, assembled from the pieces in `delta.tool_calls`.
//!
//! The standard sends id and name once, then arguments in pieces, told apart by `index`.
//! Servers deviate: one index for several calls, one id for several calls, no index, no id,
//! names in pieces, everything repeated in each piece or again at the end, `{}` before the
//! arguments, arguments as an object. A call is certain to be whole only when the model has
//! finished; until then, pieces of several calls may come in any order. But a call whose
//! arguments are a whole object is considered whole as soon as the next one begins. Whether a
//! call is valid is not judged here.

mod piece;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::limits::upstream::PLACEHOLDER_BYTES_MAX;
use crate::upstream::Delta;
use crate::upstream::frame_error::FrameError;
use crate::upstream::native_calls::{NativeCall, NativeCalls, is_json};

pub(crate) use piece::Piece;

/// Assembles the calls of one round.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    calls: NativeCalls<Names>,
}

/// A server's names for a call.
#[derive(Debug, Default)]
struct Names {
    index: Option<u64>,
    /// Empty if the server gives none.
    id: String,
    /// Whether its name came again once it was whole: with arguments, another call of the same tool begins.
    is_announced_again: bool,
}

type Open = NativeCall<Names>;

/// What a piece refers to.
enum Place {
    /// More of the call at this index.
    At(usize),
    /// A new call.
    New,
    /// A repetition of a whole call.
    Repeated,
    /// No more than the name and index of this call, which is whole: of the same, or of another that begins.
    Announced(usize),
}

impl Assembler {
    /// Adds a piece and reports what it adds to which call. If it begins a call, earlier calls
    /// to which nothing can be added are completed. Repetitions of a whole call add nothing.
    ///
    /// # Errors
    /// If there are too many calls, or too many bytes of them.
    pub(crate) fn push(
        &mut self,
        piece: &Piece,
        mut sink: impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let at = match self.place(piece) {
            Place::Repeated => return Ok(()),
            Place::Announced(at) => {
                self.calls.count(piece.name.len() + piece.arguments.len())?;
                self.calls.get_mut(at).named.is_announced_again = true;
                return Ok(());
            }
            Place::At(at) => at,
            Place::New => {
                let announced =
                    self.find(piece).filter(|at| self.open()[*at].named.is_announced_again);
                let name = announced.map(|at| self.open()[at].name.clone());
                self.complete_whole(&mut sink);
                let named = Names { index: piece.index, ..Names::default() };
                let at = self.calls.begin(named, &mut sink)?;
                self.calls.get_mut(at).name =
                    name.filter(|_| piece.name.is_empty()).unwrap_or_default();
                at
            }
        };
        if self.calls.is_completed(at) {
            // White space after a call that may already be running.
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

    /// Hands out the calls that are surely whole. Call this before words or another call: a stop text may end the round
    /// there.
    pub(crate) fn complete_whole(&mut self, mut sink: impl FnMut(Delta<'_>)) {
        self.calls.complete(&mut sink, is_surely_whole);
    }

    /// Hands out all remaining calls, once the model has finished.
    pub(crate) fn finish(&mut self, mut sink: impl FnMut(Delta<'_>)) {
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
            Some(at) if announces_again(&self.open()[at], piece) => Place::Announced(at),
            Some(at) if !self.is_after(at, piece) => Place::At(at),
            _ => Place::New,
        }
    }

    /// The call that a piece probably continues: the one with its index and id, else the last
    /// with its index, else the one with its id. Without index and id, a piece continues the
    /// last call.
    fn find(&self, piece: &Piece) -> Option<usize> {
        let last = |is_meant: &dyn Fn(&Open) -> bool| self.open().iter().rposition(is_meant);
        let has_id = |call: &Open| !piece.id.is_empty() && call.named.id == piece.id;
        if piece.index.is_none() {
            return last(&has_id).or_else(|| self.open().len().checked_sub(1));
        }
        let has_index = |call: &Open| call.named.index == piece.index;
        last(&|call| has_index(call) && has_id(call)).or_else(|| last(&has_index)).or_else(|| {
            // Several calls may share an id and be told apart by their indexes.
            last(&|call| has_id(call) && (call.named.index.is_none() || piece.name.is_empty()))
        })
    }

    /// Whether a piece that could continue this call begins a new one instead.
    fn is_after(&self, at: usize, piece: &Piece) -> bool {
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
            || ((is_handed_out || call.named.is_announced_again)
                && !piece.arguments.trim().is_empty());
        // In the middle of arguments, a name is a repetition and an id is late.
        may_begin && is_whole(&call.arguments)
    }
}

fn add(call: &mut Open, piece: &Piece) {
    if call.named.id.is_empty() {
        call.named.id.clone_from(&piece.id);
    }
    // Servers that repeat the name repeat all of it.
    if call.arguments.is_empty() && call.name != piece.name {
        call.name.push_str(&piece.name);
    }
    let begins_anew = piece.arguments.trim_start().starts_with('{');
    if is_placeholder(call) && call.is_untold() && begins_anew {
        call.arguments.clear();
    }
    call.arguments.push_str(&piece.arguments);
}

/// Whether a call is whole and the piece repeats it, or repeats no more than its id. Index and
/// id tell calls apart if both sides have them.
fn is_repeated_by(call: &Open, piece: &Piece) -> bool {
    let Names { index, id, .. } = &call.named;
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

/// Whether a piece without an id has no more than the index and the name of a whole call. Versions of vLLM write the
/// name in every piece, and the last has no arguments; servers with one index for all calls may begin the next.
fn announces_again(call: &Open, piece: &Piece) -> bool {
    piece.index.is_some()
        && piece.index == call.named.index
        && piece.id.is_empty()
        && !piece.name.is_empty()
        && piece.name == call.name
        && piece.arguments.trim().is_empty()
        && is_whole(&call.arguments)
}

/// Whether a call's arguments may be a mere placeholder: some servers send `{}` first and the
/// real arguments after it.
fn is_placeholder(call: &Open) -> bool {
    // Do not trim long arguments again for every piece: white space can go on without end.
    call.arguments.len() <= PLACEHOLDER_BYTES_MAX && call.arguments.trim() == "{}"
}

/// Whether nothing can be added to a call.
fn is_surely_whole(call: &Open) -> bool {
    !is_placeholder(call) && is_whole(&call.arguments)
}

/// Whether the arguments are a JSON object, so that nothing can follow. The last byte rules out
/// most incomplete ones without parsing.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && is_json(arguments)
}

/// Whether two texts are the same JSON: at the end, a server may repeat its arguments in another
/// format.
fn is_same_json(a: &str, b: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    read(a).is_some_and(|a| Some(a) == read(b))
}
