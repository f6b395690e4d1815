//! The tools that come with the gateway. They only compute, usually for microseconds and never for
//! more than a few milliseconds, so they run right where they are called.

pub(crate) mod calculate;
mod clock;
pub mod demo;
mod find_tools;
pub(crate) mod get_current_time;

pub use calculate::Calculate;
pub use clock::Clock;
pub use find_tools::FindTools;
pub use get_current_time::GetCurrentTime;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tools::{Registry, Tool};

    fn all() -> Vec<Arc<dyn Tool>> {
        let mut all: Vec<Arc<dyn Tool>> =
            vec![Arc::new(GetCurrentTime::new()), Arc::new(Calculate::new())];
        all.extend(demo::tools());
        all
    }

    #[test]
    fn all_can_be_offered_together_and_their_examples_are_valid() {
        let mut registry = Registry::default();
        for tool in all() {
            registry.add(tool).unwrap();
        }
        for spec in registry.catalog().specs() {
            if let Some(example) = &spec.example {
                assert_eq!(
                    registry.catalog().check(&spec.name, &example.arguments),
                    Ok(()),
                    "{}",
                    spec.name
                );
            }
        }
    }

    #[test]
    fn waiting_hints_are_parts_of_a_sentence() {
        for tool in all() {
            let hint = &tool.spec().waiting_hint;
            let first = hint.split(' ').next().unwrap();
            assert!(first.ends_with("ing"), "{hint}");
            assert!(hint.starts_with(char::is_lowercase) && hint.ends_with(char::is_alphabetic));
        }
    }

    #[test]
    fn a_lookup_can_ask_and_only_a_message_changes_the_world() {
        let policies = all().into_iter().map(|tool| {
            let spec = tool.spec();
            (spec.name.clone(), spec.policy.may_clarify, spec.policy.mutates)
        });
        let barriers: Vec<_> = policies.filter(|(_, asks, mutates)| *asks || *mutates).collect();
        assert_eq!(
            barriers,
            [("lookup_contacts".to_owned(), true, false), ("send_message".to_owned(), false, true)]
        );
    }
}
