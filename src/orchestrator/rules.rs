//! The rules of a turn.

use std::time::Duration;

use serde::Serialize;

use super::chain::Execution;
use crate::call_format::{CallContract, CallFormat};
use crate::limits;
use crate::parser::{self, SettingsError, Syntax};
use crate::tools::{Confirm, Glob};

/// The rules of a turn, the same for every turn of a gateway.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The operator's instructions to the model.
    pub system_prompt: String,
    /// How the model makes a call, until the upstream that answers is known to have another way.
    pub call_contract: CallContract,
    /// What opens calls in the formats that the prompt teaches.
    pub marker: String,
    /// How calls are parsed, in whatever format; see [`Rules::parser_settings`].
    pub parser: parser::Settings,
    /// Tokens that a request to the model may use.
    pub context_budget_tokens: usize,
    /// Whether the model sees the images that clients send and tools return.
    pub images: bool,
    /// Whether each session's marker carries a nonce.
    pub marker_nonce: bool,
    /// Whether the model is asked again after tools have run.
    pub continue_after_tool: bool,
    /// When calls run.
    pub execution: Execution,
    /// Which calls the user is asked to approve.
    pub confirm: Confirm,
    /// How many calls may run at the same time.
    pub max_parallel: usize,
    /// How many mistakes of one kind are fed back per turn.
    pub feedback_attempts: u32,
    /// How much each mistake raises the temperature.
    pub temperature_step: f64,
    /// How many tools the model is told about.
    pub select: Select,
    /// Rounds with tools per turn.
    pub max_tool_loops: u32,
    /// Calls per turn.
    pub max_calls: u32,
    /// Bytes that the model may write per turn. The turn's events may take
    /// [`EVENTS_FACTOR`](limits::turn::EVENTS_FACTOR) times as many.
    pub max_turn_bytes: usize,
    /// How long a turn continues without a reader.
    pub disconnect_grace: Duration,
}

/// How many tools a model is told about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Select {
    /// Tools told in full. With more, the best for each question are selected.
    pub max_told: usize,
    /// Names of tools that are always told.
    pub always: Vec<Glob>,
    /// Tools told by name only.
    pub names: usize,
}

impl Default for Select {
    fn default() -> Self {
        Self {
            max_told: limits::turn::TOLD_TOOLS_MAX,
            always: Vec::new(),
            names: limits::turn::NAMED_TOOLS_MAX,
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            system_prompt: String::from("You are a helpful assistant."),
            call_contract: CallContract::default(),
            marker: CallFormat::default().opener().to_owned(),
            parser: parser::Settings::default(),
            context_budget_tokens: limits::turn::CONTEXT_BUDGET_TOKENS,
            images: false,
            marker_nonce: false,
            continue_after_tool: true,
            execution: Execution::Eager,
            confirm: Confirm::default(),
            max_parallel: limits::turn::PARALLEL_MAX,
            feedback_attempts: limits::turn::FEEDBACK_ATTEMPTS_MAX,
            temperature_step: limits::turn::TEMPERATURE_STEP,
            select: Select::default(),
            max_tool_loops: limits::turn::TOOL_LOOPS_MAX,
            max_calls: limits::turn::CALLS_MAX,
            max_turn_bytes: limits::turn::BYTES_MAX,
            disconnect_grace: limits::stream::DISCONNECT_GRACE,
        }
    }
}

impl Rules {
    /// How many images the model sees. They may take a quarter of the context, so that they leave
    /// room for words; one is shown in any case.
    #[must_use]
    pub(crate) fn images_max(&self) -> usize {
        use limits::turn::{IMAGE_TOKENS, IMAGES_MAX, TOLD_SHARE};

        let most = (self.context_budget_tokens / TOLD_SHARE / IMAGE_TOKENS).clamp(1, IMAGES_MAX);
        if self.images { most } else { 0 }
    }

    /// Checks the settings of parsers, for any contract and any nonce.
    ///
    /// # Errors
    /// If they are not usable.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        // As long as every nonce.
        let longest = "0".repeat(limits::parser::NONCE_BYTES - 1);
        let nonce = self.marker_nonce.then_some(&*longest);
        for contract in [self.call_contract, CallContract::default()] {
            Syntax::new(self.parser_settings(contract, nonce))?;
        }
        Ok(())
    }

    /// The settings of the parser that reads the words of a model with this contract. With native
    /// calls it looks for no calls, and a marker is just text. Otherwise the marker carries the
    /// nonce, if there is one.
    #[must_use]
    pub(crate) fn parser_settings(
        &self,
        contract: CallContract,
        nonce: Option<&str>,
    ) -> parser::Settings {
        let format = contract.format(&self.marker);
        parser::Settings {
            calls: self.parser.calls && contract.is_in_text(),
            format: nonce.map_or_else(|| format.clone(), |nonce| format.with_nonce(nonce)),
            ..self.parser.clone()
        }
    }
}
