//! The body of the fuzz target `configuration`; an ordinary test replays its corpus.

use super::load::load_text;
use super::mistake::{ConfigError, Mistake};
use super::{Config, Overrides};

/// Target `configuration`: an accepted configuration is the same after it is printed and read again, and every
/// mistake in a refused one has a place or a key.
///
/// # Panics
/// If that does not hold.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match load(text) {
        Ok(config) => check_printed(&config),
        Err(error) => check_mistakes(text, &error),
    }
}

fn load(text: &str) -> Result<Config, ConfigError> {
    let environment = |name: &str| (name == "HOME").then(|| "/home/\"a\": $b".into());
    load_text("f.yml", text, &Overrides::default(), &environment)
}

/// Secrets are printed as a placeholder, which reads back as a secret.
fn check_printed(config: &Config) {
    let printed = config.to_yaml().expect("it can be printed");
    let again = load(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again.to_yaml().expect("it can be printed"), printed);
}

fn check_mistakes(text: &str, error: &ConfigError) {
    assert!(!error.mistakes.is_empty(), "refused for no reason");
    let lines = text.lines().count() as u64;
    for Mistake { place, key, message } in &error.mistakes {
        assert!(!message.is_empty(), "{key} has no reason");
        assert!(place.is_some() || !key.is_empty(), "{message}: where?");
        if let Some(place) = place {
            assert!((1..=lines.max(1) + 1).contains(&place.line), "{place:?} {message}");
            assert!(place.column >= 1, "{place:?} {message}");
        }
    }
    assert!(error.mistakes.is_sorted_by_key(|mistake| mistake.place), "{error}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_configuration() {
        crate::corpus::replay("configuration", configuration);
    }
}
