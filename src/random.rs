//! Random ids that cannot be guessed.

use std::cell::RefCell;

use uuid::fmt::Hyphenated;
use uuid::{Builder, Uuid};

/// How many ids one call of the system pays for.
const IDS: usize = 16;

const ID_BYTES: usize = 16;

/// Random bytes of a thread. What has been used is no longer there: an id that can be read nowhere is a secret.
///
/// ```text
///   0 0 0 0 0 0 0 0 0 | x x x x x x x
///   used, wiped       ^ at
/// ```
struct Pool {
    bytes: [u8; IDS * ID_BYTES],
    at: usize,
}

thread_local! {
    static POOL: RefCell<Pool> =
        const { RefCell::new(Pool { bytes: [0; IDS * ID_BYTES], at: IDS * ID_BYTES }) };
}

/// A random UUID (RFC 9562, version 4). Each turn needs several, and each call of the system costs as much as the rest
/// of making one.
///
/// # Panics
/// If the system has no random numbers.
#[must_use]
pub(crate) fn uuid() -> Uuid {
    let id = POOL.with_borrow_mut(Pool::take);
    Builder::from_random_bytes(id).into_uuid()
}

/// The same as text.
#[must_use]
pub(crate) fn uuid_text() -> String {
    let mut text = [0; Hyphenated::LENGTH];
    uuid().hyphenated().encode_lower(&mut text).to_owned()
}

impl Pool {
    fn take(&mut self) -> [u8; ID_BYTES] {
        if self.at == self.bytes.len() {
            getrandom::fill(&mut self.bytes).expect("the system has random numbers");
            self.at = 0;
        }
        let mut id = [0; ID_BYTES];
        id.swap_with_slice(&mut self.bytes[self.at..self.at + ID_BYTES]);
        self.at += ID_BYTES;
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_random_uuids_and_no_two_are_equal() {
        let ids: HashSet<Uuid> = (0..3 * IDS).map(|_| uuid()).collect();
        assert_eq!(ids.len(), 3 * IDS);
        assert!(ids.iter().all(|id| id.get_version_num() == 4));
        let elsewhere = std::thread::spawn(|| (0..IDS).map(|_| uuid()).collect::<Vec<_>>());
        assert!(elsewhere.join().unwrap().iter().all(|id| !ids.contains(id)));
    }

    #[test]
    fn an_id_is_kept_nowhere() {
        let mut pool = Pool { bytes: [7; IDS * ID_BYTES], at: 0 };
        assert_eq!(pool.take(), [7; ID_BYTES]);
        assert_eq!(pool.bytes[..ID_BYTES], [0; ID_BYTES]);
        assert_eq!(pool.bytes[ID_BYTES..], [7; (IDS - 1) * ID_BYTES]);
    }
}
