//! Unique names: a name that is taken gets a number.

use std::collections::{HashMap, HashSet};

/// Names that have been given out, each once.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The number that comes next after a name, so that none is tried twice.
    next: HashMap<String, usize>,
}

impl Names {
    /// This name, or if it is taken, `name_2`, `name_3` and so on.
    pub(super) fn give(&mut self, name: String) -> String {
        if self.taken.insert(name.clone()) {
            return name;
        }
        let number = self.next.entry(name.clone()).or_insert(2);
        loop {
            let numbered = format!("{name}_{number}");
            *number += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_given_once() {
        let mut names = Names::default();
        let given = ["a", "a_2", "a", "a", "b", "a_3"].map(|name| names.give(name.to_owned()));
        assert_eq!(given, ["a", "a_2", "a_3", "a_4", "b", "a_3_2"]);
    }
}
