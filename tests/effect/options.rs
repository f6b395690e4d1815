//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use hyper::Uri;
use tether::call_format::{CallContract, ContractSetting, Row};
use tether::config::{Constrain, base_url_with_version};
use tether::upstream::History;
use tether::upstream::dialect::Kind;

use crate::tasks::{Half, Selection, Set};

/// Measures whole turns of a real model through the gateway.
#[derive(Debug, Parser)]
#[command(name = "effect", args_override_self = true)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) setting: Setting,
    /// Sets of tasks to play
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["single", "turns", "no_need"])]
    sets: Vec<Set>,
    /// The half of each set to play
    #[arg(long, value_enum, default_value = "both")]
    half: Halves,
    /// Play at most N tasks of each set, spread evenly over kinds and halves
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Play only the tasks with these ids
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Offer N tools with each single call: those it needs, and others from the file
    #[arg(long, value_name = "N")]
    offered: Option<usize>,
    /// Write one JSON line for each task to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,
    /// Print a last line that counts passed and failed tasks, and exit with status 1 if any failed:
    /// the user saw an echoed or invented result, or a turn could not be played to its end
    #[arg(long)]
    pub(crate) fail_on_shown: bool,
}

/// The model, and how the gateway talks to it.
#[derive(Debug, Args)]
pub(crate) struct Setting {
    /// The model server, such as `http://127.0.0.1:8081`
    #[arg(long, value_name = "URL", value_parser = base_url_with_version)]
    pub(crate) server: Uri,
    /// The model's name on that server
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// `constrain` of the upstream
    #[arg(long, value_parser = constrain, value_name = "none|llama_grammar", default_value = "none")]
    pub(crate) constrain: Constrain,
    /// `call_contract` of the upstream
    #[arg(long, value_parser = contract, value_name = "NAME", default_value = "marker_json")]
    pub(crate) contract: ContractSetting,
    /// `kind` of the upstream
    #[arg(long, value_parser = kind, value_name = "KIND", default_value = "openai_chat")]
    pub(crate) kind: Kind,
    /// `history` of the upstream; by default what the kind and the contract suggest
    #[arg(long, value_parser = history, value_name = "text|native")]
    pub(crate) history: Option<History>,
    /// `tool_choice` of each request; `auto` is not sent
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) tool_choice: ToolChoice,
    /// `tools.select.max_told` of the gateway
    #[arg(long, value_name = "N")]
    pub(crate) max_told: Option<usize>,
    /// `model.context_budget_tokens` of the gateway
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolChoice {
    Auto,
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Halves {
    Tune,
    Report,
    Both,
}

impl Options {
    /// Which tasks to play.
    pub(crate) fn selection(&self) -> Selection {
        let half = match self.half {
            Halves::Tune => Some(Half::Tune),
            Halves::Report => Some(Half::Report),
            Halves::Both => None,
        };
        Selection {
            sets: self.sets.clone(),
            half,
            limit: self.limit,
            only: self.only.clone(),
            offered: self.offered,
        }
    }
}

fn contract(text: &str) -> Result<ContractSetting, String> {
    Ok(match text {
        "auto" => ContractSetting::Auto,
        "native" => ContractSetting::Is(CallContract::Native),
        name => {
            let row = Row::named(name).ok_or("expected auto, native or a call format")?;
            ContractSetting::Is(CallContract::InText(row))
        }
    })
}

fn kind(text: &str) -> Result<Kind, String> {
    match text {
        "openai_chat" => Ok(Kind::OpenaiChat),
        "openai_responses" => Ok(Kind::OpenaiResponses),
        "llama_completion" => Ok(Kind::LlamaCompletion),
        _ => Err("expected openai_chat, openai_responses or llama_completion".to_owned()),
    }
}

fn history(text: &str) -> Result<History, String> {
    match text {
        "text" => Ok(History::Text),
        "native" => Ok(History::Native),
        _ => Err("expected text or native".to_owned()),
    }
}

fn constrain(text: &str) -> Result<Constrain, String> {
    match text {
        "none" => Ok(Constrain::None),
        "llama_grammar" => Ok(Constrain::LlamaGrammar),
        _ => Err("expected none or llama_grammar".to_owned()),
    }
}
