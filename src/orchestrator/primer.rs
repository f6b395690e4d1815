//! A primer: how a model with a certain contract learns to call tools, and how its calls are read.

use std::sync::Arc;

use super::prompt;
use super::rules::Rules;
use crate::call_format::{CallContract, CallFormat};
use crate::conversation::render::Examples;
use crate::parser::{SettingsError, Syntax, Tools};
use crate::tools::Catalog;

/// What depends on the contract of the model that answers.
#[derive(Debug)]
pub(super) struct Primer {
    pub(super) contract: CallContract,
    /// The system message.
    pub(super) system: String,
    /// Exchanges shown to the model before the session's own.
    pub(super) examples: Arc<Examples>,
    /// How the model's words are read.
    pub(super) syntax: Arc<Syntax>,
}

impl Primer {
    /// The primer for models with this contract. The marker of calls carries the nonce, if there is
    /// one.
    ///
    /// # Errors
    /// If the parser's settings are not usable.
    pub(super) fn new(
        contract: CallContract,
        rules: &Rules,
        nonce: Option<&str>,
        tools: &prompt::Tools<'_>,
    ) -> Result<Self, SettingsError> {
        let mut settings = rules.parser_settings(contract, nonce);
        settings.tools = offered(&settings.format, tools.all);
        let syntax = Arc::new(Syntax::new(settings)?);
        let prompt = &rules.system_prompt;
        let (system, examples) = if contract.is_taught() {
            let system = prompt::system(prompt, tools, &syntax.settings().format);
            (system, Arc::new(prompt::examples(tools.told).into()))
        } else {
            // The server, or the template, presents the tools and says how to call them.
            (prompt::native_system(prompt, tools), Arc::default())
        };
        Ok(Self { contract, system, examples, syntax })
    }

    /// How calls are written, and what outside data must not contain.
    pub(super) fn format(&self) -> &CallFormat {
        &self.syntax.settings().format
    }
}

/// The tools, for formats that are read with their help.
fn offered(format: &CallFormat, tools: &Catalog) -> Tools {
    if format.row().needs_tools() {
        Tools::of(tools.specs().map(|spec| (&*spec.name, &spec.parameters)))
    } else {
        Tools::default()
    }
}
