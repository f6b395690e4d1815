//! The tokens of a message: as its server counts them, or else roughly.
//!
//! Servers report the count at the end of an answer. An answer that was broken off gets none, yet
//! the model has read its prompt and written part of the answer.

use std::sync::Arc;

use crate::call_format::CallContract;
use crate::conversation::trim;
use crate::event::Usage;
use crate::limits::turn::IMAGE_TOKENS;
use crate::orchestrator::known_tools;
use crate::upstream::{History, Images, OfferedTool, Prompt, RoundRequest, Way};

/// The tokens of a message that is being written.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Tokens {
    /// As the server has counted them.
    counted: Usage,
    /// What the model was told; `None` once its tokens are taken.
    told: Option<Box<Told>>,
    /// How many bytes the model has written. Each token needs it, and what follows in the message.
    written: usize,
}

/// What a model was told.
#[derive(Debug)]
struct Told {
    prompt: Arc<dyn Prompt>,
    /// How it makes calls.
    contract: CallContract,
    /// The tools that its server describes to it, if that is how it learns about them.
    offered: Arc<[OfferedTool]>,
}

impl Tokens {
    /// The tokens of a message that has just been asked for.
    pub(super) fn of(request: &RoundRequest, contract: CallContract) -> Self {
        let (prompt, offered) = (Arc::clone(&request.prompt), Arc::clone(&request.tools));
        Self { told: Some(Box::new(Told { prompt, contract, offered })), ..Self::default() }
    }

    /// The model that answers was told in the form of this contract.
    pub(super) fn are_told(&mut self, contract: CallContract) {
        if let Some(told) = &mut self.told {
            told.contract = contract;
        }
    }

    /// The model has written this many bytes more.
    pub(super) const fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// The server has counted. What it said before no longer counts.
    pub(super) const fn count(&mut self, usage: Usage) {
        self.counted = usage.with_total();
    }

    /// Takes the tokens, so that they are counted once. `is_broken_off`: the server has not had
    /// the chance to count them.
    pub(super) fn take(&mut self, is_broken_off: bool) -> Usage {
        let Self { counted, told, written } = std::mem::take(self);
        match told {
            // Before its first word, nobody knows whether the model has read anything.
            Some(told) if is_broken_off && counted == Usage::NONE && written > 0 => {
                let prompt_tokens = told.tokens() as u64;
                let completion_tokens = written.div_ceil(trim::BYTES_PER_TOKEN) as u64;
                Usage { prompt_tokens, completion_tokens, ..Usage::NONE }.with_total()
            }
            _ => counted,
        }
    }
}

impl Told {
    fn tokens(&self) -> usize {
        // In the usual form, even if the upstream takes another.
        let (history, by_server) = if self.contract.is_taught() {
            (History::Text, 0)
        } else {
            (History::Native, known_tools::tokens(&self.offered))
        };
        let way = Way::of(self.contract, history);
        let messages = self.prompt.messages(way, &Images::new());
        let words = messages.iter().map(|message| trim::tokens_of_bytes(message.text_bytes()));
        let images = self.prompt.images().len() * IMAGE_TOKENS;
        words.sum::<usize>() + images + by_server
    }
}
