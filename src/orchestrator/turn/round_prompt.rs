//! What a round tells its model, in the form of whichever upstream answers.

use std::borrow::Cow;
use std::sync::Arc;

use crate::call_format::{CallContract, CallFormat};
use crate::conversation::render::{Context, GoOn};
use crate::conversation::{Conversation, Turn, trim};
use crate::orchestrator::briefing::Briefing;
use crate::orchestrator::primer::Primer;
use crate::orchestrator::prompt;
use crate::orchestrator::response_format::ResponseFormat;
use crate::upstream::{Images, Message, Prompt, Way};

/// See the module docs.
#[derive(Debug)]
pub(super) struct RoundPrompt {
    pub(super) briefing: Arc<Briefing>,
    /// The earlier turns.
    pub(super) history: Conversation,
    /// The running turn.
    pub(super) current: Arc<Turn>,
    /// The final request to a model that must answer in words.
    pub(super) closing: Option<Cow<'static, str>>,
    /// Whether the model has to go on with a message that was cut off.
    pub(super) goes_on: bool,
    /// The form of the answer; words if absent.
    pub(super) response_format: Option<Arc<ResponseFormat>>,
    /// About how many tokens describe the tools to a model whose server presents them.
    pub(super) offer_tokens: usize,
}

impl RoundPrompt {
    fn context(&self, primer: &Primer, tightness: u8) -> Context {
        let rules = &self.briefing.rules;
        let room = Way::room(rules.context_budget_tokens, tightness);
        let offer_tokens = if primer.contract.is_taught() { 0 } else { self.offer_tokens };
        Context {
            system: self.system(primer),
            examples: Arc::clone(&primer.examples),
            history: self.history.clone(),
            current: Arc::clone(&self.current),
            closing: self.closing.clone(),
            go_on: self.goes_on.then_some(GoOn::Asked(prompt::GO_ON)),
            format: primer.format().clone(),
            call_ids: None,
            budget: room.saturating_sub(offer_tokens),
            images_max: rules.images_max(),
        }
    }

    /// The system message. It says which form the answer has.
    fn system(&self, primer: &Primer) -> String {
        let system = match self.closing {
            Some(_) => &self.briefing.rules.system_prompt,
            None => &primer.system,
        };
        match &self.response_format {
            Some(format) => format!("{system}\n\n{}", format.instruction()),
            None => system.clone(),
        }
    }
}

impl Prompt for RoundPrompt {
    fn messages(&self, way: Way, images: &Images) -> Vec<Message> {
        let mut context = self.context(&self.briefing.primer(way.contract), way.tightness);
        context.call_ids = way.call_ids;
        if way.prefills {
            context.go_on = context.go_on.map(|_| GoOn::Prefilled);
        }
        context.messages(way.history, images)
    }

    fn room_tokens(&self) -> usize {
        self.briefing.rules.context_budget_tokens
    }

    fn room_bytes(&self) -> usize {
        self.room_tokens().saturating_mul(trim::BYTES_PER_TOKEN)
    }

    fn goes_on(&self) -> bool {
        self.goes_on
    }

    fn format(&self, contract: CallContract) -> CallFormat {
        self.briefing.primer(contract).format().clone()
    }

    fn images(&self) -> Vec<String> {
        self.context(self.briefing.usual_primer(), 0).images()
    }
}
