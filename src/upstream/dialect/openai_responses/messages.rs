//! How much of each message has been said, so that what its end repeats is not said twice
//! and what came in its end alone is not lost.

use super::calls::Place;
use crate::limits::upstream::RESPONSE_MESSAGES_MAX;
use crate::upstream::Delta;
use crate::upstream::frame_error::FrameError;

/// The messages of one round. Mostly there is one.
#[derive(Debug, Default)]
pub(super) struct Messages {
    messages: Vec<Message>,
}

#[derive(Debug, Default)]
struct Message {
    output_index: Option<u64>,
    item_id: String,
    /// Bytes of its words so far.
    said: usize,
    /// The part that is being said, where the server counts, and bytes of it so far;
    /// `None` once it was said to be whole.
    part: Option<(Option<u64>, usize)>,
    /// The last part that has begun, where the server counts.
    newest: Option<u64>,
    /// Whether its end has repeated its words.
    is_closed: bool,
}

impl Messages {
    pub(super) const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Words were said in a message.
    ///
    /// # Errors
    /// Where it is one more than [`RESPONSE_MESSAGES_MAX`].
    pub(super) fn say(
        &mut self,
        place: Place<'_>,
        part: Option<u64>,
        words: &str,
    ) -> Result<(), FrameError> {
        if let Some(at) = self.find(place) {
            self.messages[at].say(part, words.len());
            return Ok(());
        }
        if self.messages.len() == RESPONSE_MESSAGES_MAX {
            return Err(FrameError::Malformed);
        }
        let (output_index, item_id) = (place.index, place.id.to_owned());
        let mut message = Message { output_index, item_id, ..Message::default() };
        message.say(part, words.len());
        self.messages.push(message);
        Ok(())
    }

    /// A part of a message is done, and repeats its words: what is new among them is said.
    ///
    /// # Errors
    /// As [`Messages::say`].
    pub(super) fn close_part(
        &mut self,
        place: Place<'_>,
        part: Option<u64>,
        whole: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let said = match self.find(place).map(|at| &self.messages[at]) {
            None => 0,
            Some(message) if message.is_closed => return Ok(()),
            Some(Message { part: Some((known, said)), .. }) if *known == part => *said,
            Some(message) if part > message.newest => 0,
            Some(_) => return Ok(()),
        };
        if let Some(rest) = whole.get(said..).filter(|rest| !rest.is_empty()) {
            sink(Delta::Text(rest));
            self.say(place, part, rest)?;
        }
        if let Some(at) = self.find(place) {
            self.messages[at].part = None;
        }
        Ok(())
    }

    /// A message is done, and repeats its words: what is new among them is said.
    ///
    /// # Errors
    /// As [`Messages::say`].
    pub(super) fn close(
        &mut self,
        place: Place<'_>,
        whole: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let said = self.find(place).map_or(0, |at| self.messages[at].said);
        // Where it has become other words, no rest of them makes sense.
        if let Some(rest) = whole.get(said..).filter(|rest| !rest.is_empty()) {
            sink(Delta::Text(rest));
            self.say(place, None, rest)?;
        }
        if let Some(at) = self.find(place).filter(|_| !whole.is_empty()) {
            self.messages[at].is_closed = true;
        }
        Ok(())
    }

    /// The message at a place, by its id where that is known; the last one where nothing
    /// tells them apart.
    fn find(&self, place: Place<'_>) -> Option<usize> {
        let Place { index, id } = place;
        let last = |is_meant: &dyn Fn(&Message) -> bool| self.messages.iter().rposition(is_meant);
        let by_id = || last(&|message| !id.is_empty() && message.item_id == id);
        let by_index = || last(&|message| index.is_some() && message.output_index == index);
        // A delta may name nothing of what the end names, and the other way round.
        let by_neither = || {
            last(&|message| {
                let can_tell_ids = !id.is_empty() && !message.item_id.is_empty();
                let can_tell_places = index.is_some() && message.output_index.is_some();
                !can_tell_ids && !can_tell_places
            })
        };
        by_id().or_else(by_index).or_else(by_neither)
    }
}

impl Message {
    fn say(&mut self, part: Option<u64>, bytes: usize) {
        self.said += bytes;
        self.newest = self.newest.max(part);
        self.part = match self.part {
            Some((known, said)) if known == part => Some((part, said + bytes)),
            _ => Some((part, bytes)),
        };
    }
}
