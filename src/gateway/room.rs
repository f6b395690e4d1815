//! How much of the context is taken before the conversation begins.

use super::Gateway;
use super::begin_error::BeginError;
use super::new_turn::NewTurn;
use crate::conversation::{Conversation, Opening, trim};
use crate::orchestrator::Basis;
use crate::tools::Catalog;

impl Gateway {
    /// Checks that a client's own instructions and tools leave room for a conversation. Without
    /// room, the model would see only the last message, lose every result, and repeat its calls.
    pub(super) fn check_room(&self, new: &NewTurn) -> Result<(), BeginError> {
        let instructions =
            new.client_history.as_ref().and_then(|history| history.instructions.as_deref());
        if new.client_tools.is_empty() && instructions.is_none() {
            return Ok(());
        }
        let budget = self.rules.context_budget_tokens;
        let client_tools = new.client_tools.beside(&Catalog::default());
        let instructions = instructions.unwrap_or(&self.rules.system_prompt);
        let needed = trim::tokens(instructions) + self.rules.told_tokens_of(&client_tools);
        if needed < budget { Ok(()) } else { Err(BeginError::NoRoom { needed, budget }) }
    }

    /// About how many tokens the model of this turn is told before the conversation begins:
    /// instructions, and tools with how to call them.
    ///
    /// # Errors
    /// If the turn asks for a model or a tool that does not exist.
    pub(crate) async fn briefing_tokens(&self, mut new: NewTurn) -> Result<usize, BeginError> {
        self.upstream(new.model.as_deref())?;
        let offer = self.offer_of(new.tools.as_deref()).await?;
        let offer = self.chosen(&offer, &mut new)?;
        let rules = self.rules_of(&new);
        let (opening, history) = (Opening::Prompt(String::new()), Conversation::default());
        let basis = Basis { opening: &opening, history: &history };
        Ok(offer.briefing(&rules, None, &basis).tokens())
    }
}
