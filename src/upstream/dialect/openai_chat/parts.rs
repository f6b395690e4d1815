//! Words as a list of parts, as Mistral's API writes those of models that reason:
//!
//! ```text
//!   [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Hi."}]
//! ```

use serde::Deserialize;
use serde_json::value::RawValue;

use super::memo::Words;

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

/// What the parts of such a list say, as JSON. A part without words, such as a reference, says nothing. `None` if it is
/// not a list of parts.
pub(super) fn in_parts(kind: Words, list: &RawValue) -> Option<Vec<(Words, &RawValue)>> {
    let mut said = Vec::new();
    for part in read(list)? {
        match part.thinking {
            Some(list) if list.get().starts_with('[') => {
                let texts = read(list)?.into_iter().filter_map(|part| part.text);
                said.extend(texts.map(|text| (Words::Reasoning, text)));
            }
            Some(thought) => said.push((Words::Reasoning, thought)),
            None => said.extend(part.text.map(|text| (kind, text))),
        }
    }
    Some(said)
}

fn read(list: &RawValue) -> Option<Vec<Part<'_>>> {
    serde_json::from_str(list.get()).ok()
}
