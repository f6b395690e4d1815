//! How much of each message has been said: text that its end repeats must not be said twice,
//! and text that comes only at its end must not be lost.

use super::calls::Place;
use crate::limits::upstream::RESPONSE_MESSAGES_MAX;
use crate::upstream::Delta;
use crate::upstream::frame_error::FrameError;

/// The messages of one round. Usually there is only one.
#[derive(Debug, Default)]
pub(super) struct Messages {
    messages: Vec<Message>,
}

#[derive(Debug, Default)]
struct Message {
    output_index: Option<u64>,
    item_id: String,
    /// Bytes of its text so far.
    said: usize,
    /// The current part, by number if the server numbers parts, and the bytes of it so far;
    /// `None` once the part is complete.
    part: Option<(Option<u64>, usize)>,
    /// The last part that has begun, if the server numbers parts.
    newest: Option<u64>,
    /// Whether the end of the message has repeated its text.
    is_closed: bool,
}

impl Messages {
    pub(super) const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Records text that was said in a message.
    ///
    /// # Errors
    /// If there are more than [`RESPONSE_MESSAGES_MAX`] messages.
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

    /// Closes a part, which repeats its text, and says whatever is new in it.
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

    /// Closes a message, which repeats its text, and says whatever is new in it.
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
        // If the end says something else, there is no rest that makes sense.
        if let Some(rest) = whole.get(said..).filter(|rest| !rest.is_empty()) {
            sink(Delta::Text(rest));
            self.say(place, None, rest)?;
        }
        if let Some(at) = self.find(place).filter(|_| !whole.is_empty()) {
            self.messages[at].is_closed = true;
        }
        Ok(())
    }

    /// The message at a place: by id if that is known, else by index; the last message if
    /// nothing tells them apart.
    fn find(&self, place: Place<'_>) -> Option<usize> {
        let Place { index, id } = place;
        let last = |is_meant: &dyn Fn(&Message) -> bool| self.messages.iter().rposition(is_meant);
        let by_id = || last(&|message| !id.is_empty() && message.item_id == id);
        let by_index = || last(&|message| index.is_some() && message.output_index == index);
        // A delta may leave out what the end names, and vice versa.
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
