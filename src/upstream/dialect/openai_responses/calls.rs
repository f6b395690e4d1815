//! The calls of a response, assembled from its events.
//!
//! By the standard, each item has an index in the response and its own id. Servers omit one or
//! the other, give all items the same number, or change an item's id when it is done. So the
//! closest match is taken to be the same item.

use serde_json::value::RawValue;

use crate::upstream::Delta;
use crate::upstream::frame_error::FrameError;
use crate::upstream::native_calls::{NativeCall, NativeCalls, is_json};

/// How an event refers to an item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place<'a> {
    /// The item's index in the response, if the server numbers items.
    pub(super) index: Option<u64>,
    /// The item's id; empty if the event has none.
    pub(super) id: &'a str,
}

impl Place<'_> {
    const fn names_nothing(&self) -> bool {
        self.index.is_none() && self.id.is_empty()
    }
}

/// Everything that an event may say about a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallEvent<'a> {
    pub(super) place: Place<'a>,
    pub(super) call_id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

/// Assembles the calls of one round.
#[derive(Debug, Default)]
pub(super) struct Calls {
    begun: NativeCalls<Item>,
}

/// A server's names for a call.
#[derive(Debug)]
struct Item {
    output_index: Option<u64>,
    id: String,
    call_id: String,
    /// Whether the server has said that the call is done, and its arguments are JSON.
    closed: bool,
}

type Call = NativeCall<Item>;

fn is_at(call: &Call, place: Place<'_>) -> bool {
    call.named.output_index == place.index && call.named.id == place.id
}

/// Whether a server that did not identify a call may mean this one.
fn may_become(call: &Call, said: &CallEvent<'_>) -> bool {
    !call.named.closed
        && call.name == said.name
        && said.arguments.starts_with(call.arguments.as_str())
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.open().is_empty()
    }

    fn open(&self) -> &[Call] {
        self.begun.as_slice()
    }

    /// Begins a call, unless it has been announced before.
    ///
    /// # Errors
    /// If there are too many calls, or too many bytes of them.
    pub(super) fn begin(
        &mut self,
        said: &CallEvent<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let Place { index, id } = said.place;
        let is_known = !said.place.names_nothing()
            && self.open().iter().any(|call| !call.named.closed && is_at(call, said.place));
        if is_known { Ok(()) } else { self.push(index, id, said, sink).map(|_| ()) }
    }

    /// Adds to a call's arguments. If no known call is meant, they are left to the event that
    /// repeats them.
    ///
    /// # Errors
    /// If the call is already closed; if the event identifies no call and none is open; or if
    /// there are too many bytes.
    pub(super) fn push_arguments(
        &mut self,
        place: Place<'_>,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        match self.find(place) {
            Some(at) if self.open()[at].named.closed && !json.is_empty() => {
                Err(FrameError::Malformed)
            }
            Some(at) => self.append(at, json, sink),
            None if place.names_nothing() => Err(FrameError::Malformed),
            None => Ok(()),
        }
    }

    /// Takes an event that repeats a call as a whole.
    ///
    /// # Errors
    /// As [`Calls::begin`].
    pub(super) fn repeat(
        &mut self,
        said: &CallEvent<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<usize, FrameError> {
        let at = match self.find(said.place).or_else(|| self.find_alike(said)) {
            Some(at) => at,
            None => self.push(
                said.place.index,
                said.place.id,
                &CallEvent { arguments: "", ..*said },
                sink,
            )?,
        };
        if self.open()[at].named.closed {
            return Ok(at);
        }
        // Add what no delta has sent. If the texts disagree, the last one counts.
        if let Some(rest) = said.arguments.strip_prefix(self.open()[at].arguments.as_str()) {
            self.append(at, rest, sink)?;
        } else if !said.arguments.is_empty() {
            self.begun.count(said.arguments.len())?;
            self.begun.get_mut(at).replace_arguments(said.arguments);
        }
        if !said.name.is_empty() {
            said.name.clone_into(&mut self.begun.get_mut(at).name);
        }
        Ok(at)
    }

    /// Closes a call. It is handed out after all calls before it, unless its arguments are not
    /// JSON: a call that was cut off waits for the finish, which says so.
    ///
    /// # Errors
    /// As [`Calls::begin`].
    pub(super) fn close(
        &mut self,
        said: &CallEvent<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let at = self.repeat(said, sink)?;
        let call = self.begun.get_mut(at);
        call.named.closed = is_json(&call.arguments);
        self.begun.complete(sink, |call| call.named.closed);
        Ok(())
    }

    /// Hands out all remaining calls, once the model has finished.
    pub(super) fn finish(&mut self, sink: &mut impl FnMut(Delta<'_>)) {
        self.begun.complete(sink, |_| true);
    }

    /// Whether the arguments of any call break off.
    pub(super) fn any_breaks_off(&self) -> bool {
        self.open().iter().any(|call| !call.named.closed && breaks_off(&call.arguments))
    }

    fn push(
        &mut self,
        output_index: Option<u64>,
        item_id: &str,
        said: &CallEvent<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<usize, FrameError> {
        self.begun.count(item_id.len() + said.call_id.len() + said.name.len())?;
        let (id, call_id) = (item_id.to_owned(), said.call_id.to_owned());
        let item = Item { output_index, id, call_id, closed: false };
        let at = self.begun.begin(item, sink)?;
        said.name.clone_into(&mut self.begun.get_mut(at).name);
        self.append(at, said.arguments, sink)?;
        Ok(at)
    }

    fn append(
        &mut self,
        at: usize,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        self.begun.count(json.len())?;
        self.begun.get_mut(at).arguments.push_str(json);
        self.begun.tell(at, sink);
        Ok(())
    }

    /// The call at a place: the one that matches both index and id, else the id, else the
    /// index. If the event has neither, the last open call.
    fn find(&self, place: Place<'_>) -> Option<usize> {
        let last = |is_meant: &dyn Fn(&Call) -> bool| self.open().iter().rposition(is_meant);
        if place.names_nothing() {
            return last(&|call| !call.named.closed);
        }
        last(&|call| is_at(call, place))
            .or_else(|| last(&|call| !place.id.is_empty() && call.named.id == place.id))
            .or_else(|| {
                last(&|call| place.index.is_some() && call.named.output_index == place.index)
            })
    }

    /// The open call that a finished one may be, if neither index nor id matches.
    fn find_alike(&self, said: &CallEvent<'_>) -> Option<usize> {
        let by_call_id = || {
            let is_same =
                |call: &Call| !said.call_id.is_empty() && call.named.call_id == said.call_id;
            self.open().iter().rposition(is_same)
        };
        by_call_id().or_else(|| self.open().iter().position(|call| may_become(call, said)))
    }
}

/// Whether the arguments end before their JSON does. Arguments that have not begun do not
/// count.
fn breaks_off(arguments: &str) -> bool {
    let parsed = serde_json::from_str::<&RawValue>(arguments);
    !arguments.trim().is_empty() && parsed.is_err_and(|error| error.is_eof())
}
