//! One element of `delta.tool_calls`.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::upstream::dialect::lenient;

/// What a piece says about a call. Members that are missing or make no sense are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The call that it belongs to, if the server numbers them.
    pub(crate) index: Option<u64>,
    /// The call's id.
    pub(crate) id: String,
    /// The tool's name, or part of it.
    pub(crate) name: String,
    /// Part of the arguments' text, or all of it.
    pub(crate) arguments: String,
}

impl Piece {
    /// Reads an element of the list; `None` if it is not an object.
    #[must_use]
    pub(crate) fn read(raw: &RawValue) -> Option<Self> {
        #[derive(Default, Deserialize)]
        struct Outer<'a> {
            #[serde(borrow, default)]
            index: Option<&'a RawValue>,
            #[serde(borrow, default)]
            id: Option<&'a RawValue>,
            #[serde(borrow, default)]
            function: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        struct Function<'a> {
            #[serde(borrow, default)]
            name: Option<&'a RawValue>,
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
        }
        let outer: Outer<'_> = object(raw)?;
        let function: Function<'_> = outer.function.and_then(object).unwrap_or_default();
        Some(Self {
            index: outer.index.and_then(lenient::count),
            id: outer.id.map(lenient::text).unwrap_or_default(),
            name: function.name.map(lenient::text).unwrap_or_default(),
            arguments: function.arguments.map(lenient::arguments).unwrap_or_default(),
        })
    }
}

/// serde would also accept a list of the struct's fields in order.
fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}
