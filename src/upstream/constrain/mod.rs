//! Constraints that let a model write only valid calls; one pure file a kind.

pub mod llama_grammar;

use serde_json::{Map, Value};

use super::OfferedTool;

/// What keeps a model to valid calls: `upstreams[].constrain`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Constraint {
    /// The prompt alone.
    #[default]
    None,
    /// A grammar that llama.cpp applies once the model has written the marker.
    LlamaGrammar {
        /// The marker.
        marker: String,
    },
}

impl Constraint {
    /// The fields of a request that constrain the calls of `tools`; none where no
    /// tool is offered.
    #[must_use]
    pub fn fields(&self, tools: &[OfferedTool]) -> Map<String, Value> {
        match self {
            Self::LlamaGrammar { marker } if !tools.is_empty() => {
                let _ = marker;
                Map::new()
            }
            Self::None | Self::LlamaGrammar { .. } => Map::new(),
        }
    }
}
