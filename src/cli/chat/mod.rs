//! `tether chat`: a terminal client for a running gateway.
//!
//! It knows the gateway's native API over HTTP, and nothing else of it. Drawing ([`screen`]),
//! questions ([`question`]) and commands ([`command`]) are pure; [`turn`] reads the events of a
//! turn, [`terminal`] reads and writes, and this module runs the conversation.

mod args;
mod calls;
mod clean;
mod command;
mod conversation;
mod event;
mod form;
mod gateway;
mod paint;
mod question;
mod screen;
mod showing;
mod terminal;
#[cfg(test)]
mod tests;
mod turn;

pub(super) use args::ChatArgs;

use conversation::Conversation;

use crate::cli::CliError;
use crate::cli::runtime::runtime;
use crate::config;

/// Talks to a gateway until the input ends.
///
/// # Errors
/// [`CliError::Usage`] if the input or the key cannot be used; [`CliError::Failed`] if the gateway
/// does not answer; [`CliError::Silent`] if the turn of a single prompt failed.
pub(super) fn run(args: ChatArgs) -> Result<(), CliError> {
    let settings = terminal::Settings::now();
    let is_interactive = terminal::is_interactive();
    let prompt = if is_interactive { None } else { Some(terminal::read_prompt()?) };
    let key = config::text_variable(args::KEY_VARIABLE);
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let gateway = gateway::Gateway::new(args.url, key.as_deref()).map_err(CliError::Usage)?;
        let mut conversation = Conversation::new(gateway, args.session)?;
        match prompt {
            Some(prompt) => conversation.answer_once(&prompt).await,
            None => conversation.talk().await,
        }
    });
    // A thread may still be waiting for a line. Do not wait for it.
    runtime.shutdown_background();
    // It may have changed the terminal after that was given back.
    settings.restore();
    result
}
