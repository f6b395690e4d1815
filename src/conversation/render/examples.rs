//! Made-up exchanges that show the model how to use tools. Every request shows the same ones, so the last
//! rendering is remembered.

use std::sync::Arc;

use parking_lot::Mutex;

use super::echo::echo;
use super::{Form, Style, render_turn, results, turn_tokens};
use crate::call_format::{CallFormat, Label};
use crate::conversation::{Call, Step, Turn};
use crate::upstream::{Images, Message};

/// Exchanges that come before the first turn.
#[derive(Debug, Default)]
pub(crate) struct Examples {
    turns: Vec<Turn>,
    shown: Remembered<Arc<Shown>>,
    echoes: Remembered<Arc<[Arc<str>]>>,
}

/// The last value, and what it was made for.
type Remembered<T> = Mutex<Option<(Key, T)>>;

/// What the rendering of examples depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    form: Form,
    format: CallFormat,
    call_ids: Option<&'static Label>,
    result_bytes_max: usize,
}

/// Examples as the model sees them.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) messages: Vec<Message>,
    /// How many calls are in them.
    pub(super) calls: usize,
    /// Estimated tokens.
    pub(super) tokens: usize,
}

impl From<Vec<Turn>> for Examples {
    fn from(turns: Vec<Turn>) -> Self {
        Self { turns, ..Self::default() }
    }
}

impl Examples {
    /// Their calls, in order.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.turns.iter().flat_map(|turn| &turn.steps).flat_map(Step::calls)
    }

    /// What the results of their calls are known by, in order: see [`echo`]. Each result is abridged to about
    /// `bytes_max`.
    pub(crate) fn echoes(&self, format: &CallFormat, bytes_max: usize) -> Arc<[Arc<str>]> {
        let key = Key {
            form: Form::Text,
            format: format.clone(),
            call_ids: None,
            result_bytes_max: bytes_max,
        };
        remembered(&self.echoes, key, || {
            let json = |call: &Call| results::json(&call.result(), format, bytes_max);
            self.calls().filter_map(|call| echo(&json(call))).collect()
        })
    }

    /// The messages that show them.
    pub(super) fn shown(&self, form: Form, style: Style<'_>) -> Arc<Shown> {
        let Style { format, call_ids, result_bytes_max, .. } = style;
        let key = Key { form, format: format.clone(), call_ids, result_bytes_max };
        remembered(&self.shown, key, || {
            let (mut messages, mut calls) = (Vec::new(), 0);
            for turn in &self.turns {
                render_turn(&mut messages, &mut calls, turn, 0, form, style);
            }
            let tokens = self.tokens(format, result_bytes_max);
            Arc::new(Shown { messages, calls, tokens })
        })
    }

    /// Estimates the tokens that they take in a prompt.
    pub(crate) fn tokens(&self, format: &CallFormat, result_bytes_max: usize) -> usize {
        let images = &Images::new();
        let style = Style { format, call_ids: None, result_bytes_max, images };
        self.turns.iter().map(|turn| turn_tokens(turn, style)).sum()
    }
}

/// Returns the last value if it was made for the same key; otherwise makes and remembers another.
fn remembered<T: Clone>(last: &Remembered<T>, key: Key, make: impl FnOnce() -> T) -> T {
    if let Some((known, value)) = &*last.lock()
        && *known == key
    {
        return value.clone();
    }
    let value = make();
    *last.lock() = Some((key, value.clone()));
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_format::HERMES;
    use crate::conversation::Ending;
    use crate::event::TurnFinish;

    fn greeting() -> Examples {
        let ending = Some(Ending::Completed(TurnFinish::Stop));
        vec![Turn { prompt: "Hello!".to_owned(), ending, ..Turn::default() }].into()
    }

    #[test]
    fn examples_are_rendered_again_only_for_another_style() {
        let (examples, images) = (greeting(), Images::new());
        let (marker, hermes) = (CallFormat::default(), CallFormat::of(&HERMES));
        let style = |format| Style { format, call_ids: None, result_bytes_max: 9, images: &images };
        let first = examples.shown(Form::Text, style(&marker));
        assert!(Arc::ptr_eq(&first, &examples.shown(Form::Text, style(&marker))));
        for other in [
            examples.shown(Form::Native, style(&marker)),
            examples.shown(Form::Native, style(&hermes)),
            examples.shown(Form::Native, Style { result_bytes_max: 8, ..style(&hermes) }),
        ] {
            assert!(!Arc::ptr_eq(&first, &other));
        }
    }
}
