//! `--answer`: what a tool's questions are answered with.

use serde_json::{Value, json};

use crate::cli::CliError;
use crate::tools::{Clarification, Given, form};

/// An answer to every question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Accept,
    Decline,
    Cancel,
    Json(Value),
}

impl Answer {
    /// `accept`, `decline`, `cancel`, JSON, or else text.
    ///
    /// # Errors
    /// If it is meant as JSON, and is not.
    pub(super) fn parse(written: &str) -> Result<Self, CliError> {
        Ok(match written {
            "accept" => Self::Accept,
            "decline" => Self::Decline,
            "cancel" => Self::Cancel,
            other => match serde_json::from_str(other) {
                Ok(value) => Self::Json(value),
                Err(error) if other.starts_with(['{', '[', '"']) => {
                    return Err(CliError::Usage(format!("the answer is not valid JSON: {error}")));
                }
                Err(_) => Self::Json(Value::from(other)),
            },
        })
    }

    /// What it means as an answer to this question.
    pub(super) fn given(&self, question: &Clarification) -> Result<Given, CliError> {
        let Clarification { schema, options, .. } = question;
        let filled = |schema: &Value, content: Value| {
            form::fill(schema, content).map(Given::Content).map_err(|violations| {
                let told: Vec<String> = violations.iter().map(|it| it.of("answer")).collect();
                CliError::Usage(told.join("; "))
            })
        };
        match (self, schema) {
            (Self::Decline, _) => Ok(Given::Declined),
            (Self::Cancel, _) => Ok(Given::Cancelled),
            (Self::Accept, Some(schema)) => filled(schema, json!({})),
            (Self::Accept, None) => options.first().cloned().map(Given::Option).ok_or_else(|| {
                CliError::Usage("the question has nothing to accept; answer with JSON".to_owned())
            }),
            (Self::Json(content @ Value::Object(_)), Some(schema)) => {
                filled(schema, content.clone())
            }
            (Self::Json(Value::String(text)), schema) => {
                let option = options.iter().find(|option| option.id == *text);
                match (schema, option) {
                    (Some(schema), Some(option)) => match form::from_option(schema, &option.id) {
                        Some(content) => filled(schema, content),
                        None => Ok(Given::Declined),
                    },
                    (Some(schema), None) => {
                        let content = form::from_text(schema, text);
                        filled(schema, content.unwrap_or_else(|| json!(text)))
                    }
                    (None, Some(option)) => Ok(Given::Option(option.clone())),
                    (None, None) => Ok(Given::Text(text.clone())),
                }
            }
            (Self::Json(number @ Value::Number(_)), Some(schema)) => {
                let content = form::from_text(schema, &number.to_string());
                filled(schema, content.unwrap_or_else(|| number.clone()))
            }
            (Self::Json(_), _) => {
                Err(CliError::Usage("the question cannot be answered with this JSON".to_owned()))
            }
        }
    }
}
