//! How many of something each client has.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// A count for each of many clients. **Only clients that have something are remembered**, so this takes
/// memory for what is counted, not for everybody who ever came.
#[derive(Debug)]
pub(crate) struct Counts<K>(HashMap<K, usize>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> Counts<K> {
    /// How many this client has.
    pub(crate) fn of<Q: Hash + Eq + ?Sized>(&self, client: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.0.get(client).copied().unwrap_or(0)
    }

    /// How many clients have something.
    pub(crate) fn clients(&self) -> usize {
        self.0.len()
    }

    /// Counts one more. Returns how many the client has now.
    pub(crate) fn add(&mut self, client: K) -> usize {
        let count = self.0.entry(client).or_default();
        *count += 1;
        *count
    }

    /// Counts one less. Returns how many the client has left.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, client: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let Some(count) = self.0.get_mut(client) else { return 0 };
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.0.remove(client);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_nothing_left_is_forgotten() {
        let mut counts: Counts<String> = Counts::default();
        assert_eq!(
            [counts.add("a".into()), counts.add("a".into()), counts.add("b".into())],
            [1, 2, 1]
        );
        assert_eq!((counts.of("a"), counts.of("c"), counts.clients()), (2, 0, 2));
        assert_eq!(["a", "a", "a", "b"].map(|client| counts.remove(client)), [1, 0, 0, 0]);
        assert_eq!(counts.clients(), 0);
    }
}
