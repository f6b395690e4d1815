//! Asking a running server what it can do: `tether check --probe`.

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use super::Server;
use super::failed::Failed;
use crate::call_format::ContractSetting;
use crate::upstream::chat_template::Losses;
use crate::upstream::constrain::Constrain;
use crate::upstream::models::{Flavour, Models};
use crate::upstream::{History, RoundFailure};

/// What a model would never say by itself.
const IMPOSSIBLE: &str = "tether-probe-7";
/// Long enough for it, and short enough for a slow machine.
const ANSWER_TOKENS: u32 = 40;

/// What a server does with a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holding {
    Held,
    Ignored,
    /// The model only thought, and servers restrict what comes after that.
    Unknown,
    Refused(String),
}

impl Server {
    /// What the server says about itself and how it behaves, a sentence each.
    pub(in crate::upstream) async fn probe(
        &self,
        constrain: Option<Constrain>,
        history: History,
    ) -> Result<Vec<String>, RoundFailure> {
        let models = self.models().await.map_err(|failed| failed.failure)?;
        let mut findings = vec![self.identity(&models)];
        findings.extend(models.context.map(|tokens| {
            format!(
                "its context has {tokens} tokens; keep `model.context_budget_tokens` below that, \
                 with room for an answer"
            )
        }));
        let detected = self.detect().await.map_err(|failed| failed.failure)?;
        let (name, reason) = (detected.contract.name(), &detected.reason);
        findings.push(match self.contract {
            ContractSetting::Auto => format!("`call_contract: auto` is {name}: {reason}"),
            ContractSetting::Is(set) if set == detected.contract => {
                format!("`call_contract: {name}` is what `auto` would choose: {reason}")
            }
            ContractSetting::Is(set) => {
                format!("`call_contract` is {}; `auto` would choose {name}: {reason}", set.name())
            }
        });
        findings.extend(self.special_tokens(models.flavour));
        let (report, _) = self.report(&models).await;
        findings.extend(report.calls_natively.map(|calls_natively| {
            let can = if calls_natively {
                "it can parse calls: `call_contract: native` is possible"
            } else {
                "it cannot parse calls: do not use `call_contract: native`"
            };
            can.to_owned()
        }));
        findings.extend(self.template(history).await);
        if let Some(constrain) = constrain {
            findings.push(self.constraints(&models, constrain).await);
        }
        Ok(findings)
    }

    fn identity(&self, models: &Models) -> String {
        let server = match models.flavour {
            Flavour::Vllm => "vLLM",
            Flavour::Sglang => "SGLang",
            Flavour::LlamaCpp => "llama.cpp",
            Flavour::Ollama => "Ollama",
            Flavour::Other => "a server that does not say what it is",
        };
        let size =
            models.parameters.map(|count| format!(" ({} million parameters)", count / 1_000_000));
        let model = match self.model_of(models) {
            "" => "it lists no models; set `model`".to_owned(),
            model => format!("its model is {model}{}", size.unwrap_or_default()),
        };
        let instead = self.names_instead(models);
        let model = match instead {
            Some(listed) => format!("{model}, which it does not list; it has {listed}"),
            None => model,
        };
        format!("it is {server}; {model}")
    }

    fn special_tokens(&self, flavour: Flavour) -> Option<String> {
        let said = match (self.sends_prompts, flavour) {
            (true, _) => "special tokens arrive, because the request lists those of the format",
            (false, Flavour::Vllm | Flavour::Sglang) => {
                "special tokens arrive, because `skip_special_tokens: false` is sent"
            }
            (false, Flavour::LlamaCpp) => {
                "special tokens are left out of the text; kind `llama_completion` gets them"
            }
            (false, Flavour::Ollama) => "special tokens are left out of the text",
            (false, Flavour::Other) => return None,
        };
        Some(said.to_owned())
    }

    /// What the chat template loses, with what it makes of a conversation.
    async fn template(&self, history: History) -> Option<String> {
        let advice = if self.sends_prompts {
            "that is written as text"
        } else if history == History::Native {
            "set `history: text`, or kind `llama_completion`"
        } else {
            "`history: text` avoids this"
        };
        // Only llama.cpp renders templates for others.
        let rendered = self.render_test().await.ok()?;
        let Some(prompt) = rendered else {
            return Some(format!("its chat template refuses conversations with tools; {advice}"));
        };
        let losses = Losses::of(&prompt);
        if losses == Losses::default() {
            return Some("its chat template keeps tools, calls and results".to_owned());
        }
        let lost = losses.named().join(", ");
        let lines: Vec<_> = prompt.lines().map(|line| format!("  | {line}")).collect();
        let shown = lines.join("\n");
        Some(format!("its chat template drops {lost}; {advice}. It renders:\n{shown}"))
    }

    /// Which constraints hold, by answers that no model would give.
    async fn constraints(&self, models: &Models, constrain: Constrain) -> String {
        let format = json!({"type": "const_string", "value": IMPOSSIBLE});
        let schema = json!({"name": "probe", "strict": true, "schema": {
            "type": "object", "properties": {"probe": {"const": IMPOSSIBLE}}, "required": ["probe"],
            "additionalProperties": false,
        }});
        let asked = [
            ("llama_grammar", json!({"grammar": format!("root ::= \"{IMPOSSIBLE}\"")})),
            (
                "structural_tag",
                json!({"response_format": {"type": "structural_tag", "format": format}}),
            ),
            (
                "json_schema",
                json!({"response_format": {"type": "json_schema", "json_schema": schema}}),
            ),
        ];
        // llama.cpp's own API knows the grammar alone.
        let tried = if self.sends_prompts { &asked[..1] } else { &asked[..] };
        let set = Constrain::ALL.iter().find(|(_, value)| *value == constrain);
        let set = set.map_or("none", |(name, _)| name);
        // What is refused without any of them is not refused because of one.
        match self.holds(models, &json!({})).await {
            Ok(Holding::Refused(why))
            | Err(Failed { failure: RoundFailure { message: why, .. }, .. }) => {
                return format!("`constrain` is {set}: none could be tried ({why})");
            }
            Ok(_) => {}
        }
        let mut found = Vec::new();
        for (name, fields) in tried {
            found.push(match self.holds(models, fields).await {
                Ok(Holding::Held) => format!("{name} holds"),
                Ok(Holding::Ignored) => format!("{name} is ignored"),
                Ok(Holding::Unknown) => {
                    format!(
                        "{name} could not be tested (the model thought for {ANSWER_TOKENS} tokens)"
                    )
                }
                Ok(Holding::Refused(why)) => format!("{name} is refused ({why})"),
                Err(failed) => format!("{name} could not be tried ({})", failed.failure.message),
            });
        }
        format!("`constrain` is {set}: {}", found.join(", "))
    }

    /// What the server does with these fields.
    async fn holds(&self, models: &Models, fields: &Value) -> Result<Holding, Failed> {
        let mut body = json!({
            "model": self.model_of(models),
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0,
        });
        if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
            body.extend(fields.clone());
        }
        // The path of kind `llama_completion` is without the version.
        let version = if self.sends_prompts { "/v1" } else { "" };
        let path = format!("{}{version}/chat/completions", self.path);
        let body = Bytes::from(body.to_string());
        match self.look_up_within(self.idle_timeout, Method::POST, &path, body).await {
            Ok(answer) => {
                // The rest may quote the request.
                let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                let message = &answer["choices"][0]["message"];
                if !message.is_object() {
                    return Err(Failed::permanent(RoundFailure::not_a_completion()));
                }
                let said = message["content"].as_str().unwrap_or_default();
                let thought = ["reasoning", "reasoning_content"]
                    .iter()
                    .any(|key| message[*key].as_str().is_some_and(|thought| !thought.is_empty()));
                Ok(if said.contains(IMPOSSIBLE) {
                    Holding::Held
                } else if said.trim().is_empty() && thought {
                    Holding::Unknown
                } else {
                    Holding::Ignored
                })
            }
            Err(failed) if failed.rejection.is_some() => {
                Ok(Holding::Refused(failed.failure.message))
            }
            Err(failed) => Err(failed),
        }
    }
}
