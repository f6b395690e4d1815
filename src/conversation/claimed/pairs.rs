//! Which result belongs to which call.

use std::collections::HashMap;

/// The calls of a conversation by the ids that the client gives them.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// The calls that have no result yet, the next one last. Empty once all have theirs.
    by_id: HashMap<String, Vec<Place>>,
}

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) exchange: usize,
    pub(super) reply: usize,
    pub(super) call: usize,
}

/// Where a result belongs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pairing {
    /// To this call.
    Call(Place),
    /// To a call that already has one.
    Duplicate,
    /// To no call so far.
    Stray,
}

impl Pairs {
    /// Adds the calls of a message. Returns how many of their ids were used before.
    pub(super) fn add<'a>(
        &mut self,
        calls: impl DoubleEndedIterator<Item = (&'a str, Place)>,
    ) -> u32 {
        let mut reused = 0;
        // Results of the same message come in the order of its calls.
        for (id, place) in calls.rev() {
            match self.by_id.get_mut(id) {
                Some(open) => {
                    open.push(place);
                    reused += 1;
                }
                None => _ = self.by_id.insert(id.to_owned(), vec![place]),
            }
        }
        reused
    }

    /// Finds the call of a result: the nearest message that has one without.
    pub(super) fn pair(&mut self, id: &str) -> Pairing {
        match self.by_id.get_mut(id).map(Vec::pop) {
            Some(Some(place)) => Pairing::Call(place),
            Some(None) => Pairing::Duplicate,
            None => Pairing::Stray,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_goes_to_the_nearest_message_and_there_to_the_first_call() {
        let place = |reply, call| Place { exchange: 0, reply, call };
        let mut pairs = Pairs::default();
        assert_eq!(pairs.add([("a", place(0, 0))].into_iter()), 0);
        assert_eq!(pairs.add([("a", place(1, 0)), ("a", place(1, 1))].into_iter()), 2);
        for expected in [place(1, 0), place(1, 1), place(0, 0)] {
            assert_eq!(pairs.pair("a"), Pairing::Call(expected));
        }
        assert_eq!(pairs.pair("a"), Pairing::Duplicate);
        assert_eq!(pairs.pair("b"), Pairing::Stray);
    }
}
