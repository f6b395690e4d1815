//! The calls of a response, assembled from its events.
//!
//! By the standard each item has a place in the response and an id of its own. Servers
//! leave out the one or the other, number all items alike, or give an item another id
//! when it is done: what is the most alike is taken for the same.

use serde_json::value::RawValue;

use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX};
use crate::upstream::Delta;
use crate::upstream::openai_chat::FrameError;

/// What an item is called in an event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place<'a> {
    /// Its place in the response, where the server counts.
    pub(super) index: Option<u64>,
    /// Its own id; empty where the event has none.
    pub(super) id: &'a str,
}

impl Place<'_> {
    const fn names_nothing(&self) -> bool {
        self.index.is_none() && self.id.is_empty()
    }
}

/// All that an event may say of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) place: Place<'a>,
    pub(super) call_id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

/// Assembles the calls of one round.
#[derive(Debug, Default)]
pub(super) struct Calls {
    begun: Vec<Call>,
    /// The calls before this one were handed out as whole.
    whole: usize,
    /// Arguments and names of all calls, in bytes.
    bytes: usize,
}

/// A call that has begun.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "`call_id` is the API's word")]
struct Call {
    output_index: Option<u64>,
    item_id: String,
    call_id: String,
    name: String,
    arguments: String,
    /// Whether the server has said that it is whole, and its arguments are JSON.
    closed: bool,
}

impl Call {
    fn is_at(&self, place: Place<'_>) -> bool {
        self.output_index == place.index && self.item_id == place.id
    }

    /// Whether a server that has not named it may mean it.
    fn may_become(&self, said: &Said<'_>) -> bool {
        !self.closed
            && self.name == said.name
            && said.arguments.starts_with(self.arguments.as_str())
    }
}

impl Calls {
    pub(super) const fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// A call begins. One that was announced before does not begin twice.
    ///
    /// # Errors
    /// Where it passes [`NATIVE_CALLS_MAX`] or [`NATIVE_CALL_BYTES_MAX`].
    pub(super) fn begin(
        &mut self,
        said: &Said<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let Place { index, id } = said.place;
        let is_known = !said.place.names_nothing()
            && self.begun.iter().any(|call| !call.closed && call.is_at(said.place));
        if is_known { Ok(()) } else { self.push(index, id, said, sink).map(|_| ()) }
    }

    /// More of a call's arguments. Where no open call is meant, they are left to the
    /// event that repeats them.
    ///
    /// # Errors
    /// Where the call is whole already, with other arguments; where nothing is named and no
    /// call is open; or where they pass [`NATIVE_CALL_BYTES_MAX`].
    pub(super) fn argue(
        &mut self,
        place: Place<'_>,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        match self.find(place) {
            Some(at) if self.begun[at].closed && !json.is_empty() => Err(FrameError::Malformed),
            Some(at) => self.append(at, json, sink),
            None if place.names_nothing() => Err(FrameError::Malformed),
            None => Ok(()),
        }
    }

    /// What was said of a call is said once more as a whole.
    ///
    /// # Errors
    /// As [`Calls::begin`].
    pub(super) fn repeat(
        &mut self,
        said: &Said<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<usize, FrameError> {
        let at = match self.find(said.place).or_else(|| self.find_alike(said)) {
            Some(at) => at,
            None => {
                self.push(said.place.index, said.place.id, &Said { arguments: "", ..*said }, sink)?
            }
        };
        if self.begun[at].closed {
            return Ok(at);
        }
        // What no delta has brought. Where they differ otherwise, the end counts.
        if let Some(rest) = said.arguments.strip_prefix(self.begun[at].arguments.as_str()) {
            self.append(at, rest, sink)?;
        } else if !said.arguments.is_empty() {
            self.count(said.arguments.len())?;
            said.arguments.clone_into(&mut self.begun[at].arguments);
        }
        if !said.name.is_empty() {
            said.name.clone_into(&mut self.begun[at].name);
        }
        Ok(at)
    }

    /// A call is done. It is handed out once those before it are, unless its arguments are
    /// no JSON: what is cut waits for the finish that says so.
    ///
    /// # Errors
    /// As [`Calls::begin`].
    pub(super) fn close(
        &mut self,
        said: &Said<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let at = self.repeat(said, sink)?;
        self.begun[at].closed = is_json(&self.begun[at].arguments);
        self.hand_out(sink, |call| call.closed);
        Ok(())
    }

    /// Hands out all calls that are left. The model has finished.
    pub(super) fn finish(&mut self, sink: &mut impl FnMut(Delta<'_>)) {
        self.hand_out(sink, |_| true);
    }

    /// Whether a call breaks off in its arguments.
    pub(super) fn any_breaks_off(&self) -> bool {
        self.begun.iter().any(|call| !call.closed && breaks_off(&call.arguments))
    }

    fn push(
        &mut self,
        output_index: Option<u64>,
        item_id: &str,
        said: &Said<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<usize, FrameError> {
        if self.begun.len() == NATIVE_CALLS_MAX {
            return Err(FrameError::Malformed);
        }
        self.count(item_id.len() + said.call_id.len() + said.name.len())?;
        let owned = str::to_owned;
        let (item_id, call_id, name) = (owned(item_id), owned(said.call_id), owned(said.name));
        self.begun.push(Call { output_index, item_id, call_id, name, ..Call::default() });
        let at = self.begun.len() - 1;
        sink(Delta::CallStarted { index: index(at) });
        self.append(at, said.arguments, sink)?;
        Ok(at)
    }

    fn append(
        &mut self,
        at: usize,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        if !json.is_empty() {
            self.count(json.len())?;
            self.begun[at].arguments.push_str(json);
            sink(Delta::CallArguments { index: index(at), json });
        }
        Ok(())
    }

    /// Hands out the calls that are whole, in their order.
    fn hand_out(&mut self, sink: &mut impl FnMut(Delta<'_>), is_whole: impl Fn(&Call) -> bool) {
        while let Some(call) = self.begun.get(self.whole).filter(|call| is_whole(call)) {
            let (name, arguments) = (&call.name, &call.arguments);
            sink(Delta::CallCompleted { index: index(self.whole), name, arguments });
            self.whole += 1;
        }
    }

    /// The call at a place: the one that place and id fit, else the id, else the place;
    /// the last open one where nothing is named.
    fn find(&self, place: Place<'_>) -> Option<usize> {
        let last = |is_meant: &dyn Fn(&Call) -> bool| self.begun.iter().rposition(is_meant);
        if place.names_nothing() {
            return last(&|call| !call.closed);
        }
        last(&|call| call.is_at(place))
            .or_else(|| last(&|call| !place.id.is_empty() && call.item_id == place.id))
            .or_else(|| last(&|call| place.index.is_some() && call.output_index == place.index))
    }

    /// The open call that a done one may be, where neither place nor id say it.
    fn find_alike(&self, said: &Said<'_>) -> Option<usize> {
        let by_call_id = || {
            let is_same = |call: &Call| !said.call_id.is_empty() && call.call_id == said.call_id;
            self.begun.iter().rposition(is_same)
        };
        by_call_id().or_else(|| self.begun.iter().position(|call| call.may_become(said)))
    }

    fn count(&mut self, bytes: usize) -> Result<(), FrameError> {
        self.bytes += bytes;
        if self.bytes > NATIVE_CALL_BYTES_MAX { Err(FrameError::Malformed) } else { Ok(()) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most NATIVE_CALLS_MAX")]
const fn index(at: usize) -> u32 {
    at as u32
}

fn is_json(arguments: &str) -> bool {
    serde_json::from_str::<&RawValue>(arguments).is_ok()
}

/// Whether arguments end before their JSON does. Those that have not begun do not.
fn breaks_off(arguments: &str) -> bool {
    let parsed = serde_json::from_str::<&RawValue>(arguments);
    !arguments.trim().is_empty() && parsed.is_err_and(|error| error.is_eof())
}
