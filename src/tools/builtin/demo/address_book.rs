//! The address book of the demo tools: people who do not exist, and how well a name fits each.

use serde_json::{Value, json};

/// From this confidence on, a name is taken to mean the person.
pub(super) const SURE: f64 = 0.8;

/// A person in the address book.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contact {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) company: &'static str,
    pub(super) town: &'static str,
}

impl Contact {
    /// Details that distinguish one John from another.
    pub(super) fn details(&self) -> Value {
        json!({"company": self.company, "town": self.town})
    }
}

const BOOK: &[Contact] = &[
    contact("contact_john_doe", "John Doe", "Acme Tools", "Boston"),
    contact("contact_john_smith", "John Smith", "Harbour Books", "Bristol"),
    contact("contact_john_carter", "John Carter", "Red Sand Travel", "Richmond"),
    contact("contact_jane_miller", "Jane Miller", "Northwind Tea", "Leeds"),
    contact("contact_jack_turner", "Jack Turner", "Turner & Sons", "Galway"),
    contact("contact_julia_weber", "Julia Weber", "Weber Optics", "Jena"),
    contact("contact_maria_lopez", "Maria Lopez", "Casa Verde", "Valencia"),
    contact("contact_mario_rossi", "Mario Rossi", "Rossi Boats", "Genoa"),
];

const fn contact(
    id: &'static str,
    name: &'static str,
    company: &'static str,
    town: &'static str,
) -> Contact {
    Contact { id, name, company, town }
}

/// The person with this id.
pub(super) fn by_id(id: &str) -> Option<&'static Contact> {
    BOOK.iter().find(|contact| contact.id == id)
}

/// Everyone whom `name` may mean, with a confidence from 0 to 1, the surest first. If someone
/// reaches [`SURE`], the less sure matches are left out.
pub(super) fn search(name: &str) -> Vec<(&'static Contact, f64)> {
    let mut found: Vec<(&Contact, f64)> = BOOK
        .iter()
        .filter_map(|contact| Some((contact, confidence(name, contact.name)?)))
        .collect();
    // The sort is stable: equal matches keep the book's order.
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    if found.first().is_some_and(|(_, best)| *best >= SURE) {
        found.retain(|(_, confidence)| *confidence >= SURE);
    }
    found
}

/// From this many letters on, the beginning of a name is more than an initial.
const BEGINNING_CHARS_MIN: usize = 3;
/// From this similarity on, one word is taken for a misspelling of the other: "Jhon".
const SLIP: f64 = 0.7;

/// How sure it is that `asked` means the person called `name`; `None` if it does not.
fn confidence(asked: &str, name: &str) -> Option<f64> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|char: char| !char.is_alphanumeric());
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let (asked, name) = (words(asked), words(name));
    if asked.is_empty() || asked.len() > name.len() {
        return None;
    }
    if asked == name {
        return Some(1.0);
    }
    // A chain is only as strong as its weakest link.
    asked.iter().try_fold(0.9, |weakest: f64, asked| {
        let best = name.iter().filter_map(|word| likeness(asked, word)).max_by(f64::total_cmp)?;
        Some(weakest.min(best))
    })
}

fn likeness(asked: &str, word: &str) -> Option<f64> {
    if asked == word {
        Some(0.9)
    } else if word.starts_with(asked) {
        Some(if asked.chars().count() < BEGINNING_CHARS_MIN { 0.3 } else { 0.6 })
    } else {
        (strsim::normalized_damerau_levenshtein(asked, word) >= SLIP).then_some(0.5)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(name: &str, found: &[(&str, f64)]) {
        let search: Vec<_> =
            search(name).into_iter().map(|(contact, sure)| (contact.name, sure)).collect();
        assert_eq!(search, found, "{name}");
    }

    #[test]
    fn names_are_found_as_people_say_them() {
        let johns = [("John Doe", 0.9), ("John Smith", 0.9), ("John Carter", 0.9)];
        check("John", &johns);
        check(" john ", &johns);
        check("John Doe", &[("John Doe", 1.0)]);
        check("doe, john", &[("John Doe", 0.9)]);
        check("smith", &[("John Smith", 0.9)]);
        check("Jane", &[("Jane Miller", 0.9)]);
        // Mario is one letter away but not meant.
        check("Maria", &[("Maria Lopez", 0.9)]);
        check("Zorgblort", &[]);
        check("John Zorgblort", &[]);
        check("John John John", &[]);
        check("", &[]);
        check("?!", &[]);
    }

    #[test]
    fn beginnings_and_slips_are_never_sure() {
        check("Jan", &[("Jane Miller", 0.6)]);
        check("Jhon D", &[("John Doe", 0.3)]);
        check("Mraia", &[("Maria Lopez", 0.5)]);
        for (contact, confidence) in search("J") {
            assert!(confidence < SURE && contact.name.starts_with('J'));
        }
        assert_eq!(search("J").len(), 6);
    }

    #[test]
    fn ids_are_unique_and_lead_to_their_person() {
        for contact in BOOK {
            assert_eq!(by_id(contact.id), Some(contact));
        }
        assert_eq!(by_id("contact_john"), None);
    }

    proptest! {
        #[test]
        fn any_name_is_looked_up(name in any::<String>()) {
            for (_, confidence) in search(&name) {
                prop_assert!((0.0..=1.0).contains(&confidence));
            }
        }
    }
}
