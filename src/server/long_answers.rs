//! Room for long answers that are whole in memory until their client has taken them.
//!
//! A client may ask for many at once, and take none: then each stays in memory until its connection counts as stalled.

use std::sync::Arc;

use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::refusal::Refusal;
use crate::limits::KIB;
use crate::limits::server::{ANSWERS_LOADED_MAX, ANSWERS_LOADED_WAIT, LONG_ANSWERS_BYTES_MAX};
use crate::limits::session::INLINE_RECORD_BYTES_MAX;

/// The room for all of them.
#[derive(Debug)]
pub(super) struct LongAnswers {
    room: Arc<Semaphore>,
    loading: Semaphore,
}

/// Room for one.
#[derive(Debug)]
pub(super) struct Room(Option<OwnedSemaphorePermit>);

/// An answer, and the room that it takes.
struct Held {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl LongAnswers {
    pub(super) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(LONG_ANSWERS_BYTES_MAX / KIB)),
            loading: Semaphore::new(ANSWERS_LOADED_MAX),
        }
    }

    /// Waits if [`ANSWERS_LOADED_MAX`] answers are being loaded already: how long they are shows only then. Hold the
    /// permit until the answer is written.
    ///
    /// # Errors
    /// If it waits for too long, because the store is slow.
    pub(super) async fn loading_permit(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        let permit = timeout(ANSWERS_LOADED_WAIT, self.loading.acquire()).await;
        permit.ok().and_then(Result::ok).ok_or(Refusal::LongAnswers)
    }

    /// Takes room for an answer of about this length, before it is written. A short one needs none.
    ///
    /// # Errors
    /// If there is not enough.
    pub(super) fn room(&self, bytes: usize) -> Result<Room, Refusal> {
        if bytes <= INLINE_RECORD_BYTES_MAX {
            return Ok(Room(None));
        }
        let kib = bytes.min(LONG_ANSWERS_BYTES_MAX) / KIB;
        let permits = u32::try_from(kib).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.room).try_acquire_many_owned(permits);
        taken.map_or(Err(Refusal::LongAnswers), |permits| Ok(Room(Some(permits))))
    }
}

impl Room {
    /// The answer, which takes this room as long as any of it is in memory.
    pub(super) fn hold(self, bytes: impl Into<Bytes>) -> Bytes {
        let bytes = bytes.into();
        match self.0 {
            Some(room) => Bytes::from_owner(Held { bytes, _room: room }),
            None => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: usize = LONG_ANSWERS_BYTES_MAX;

    #[test]
    fn an_answer_takes_room_until_all_of_it_is_gone() {
        let answers = LongAnswers::new();
        let mut held = answers.room(2 * WHOLE).unwrap().hold(vec![b'x'; 100]);
        assert!(matches!(answers.room(INLINE_RECORD_BYTES_MAX + 1), Err(Refusal::LongAnswers)));
        assert!(answers.room(INLINE_RECORD_BYTES_MAX).is_ok(), "a short one needs none");
        let sent = held.split_to(60);
        drop(held);
        assert!(answers.room(WHOLE).is_err(), "the socket has not taken the rest");
        drop(sent);
        assert!(answers.room(WHOLE).is_ok());
    }
}
