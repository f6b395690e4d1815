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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ClarificationOption;

    const NOTHING: &str = "the question has nothing to accept; answer with JSON";
    const NO_ANSWER: &str = "the question cannot be answered with this JSON";

    /// A form with an optional and a required field.
    fn form() -> Clarification {
        let number = json!({"type": "integer"});
        let size = json!({"type": "string", "default": "large"});
        let properties = json!({"number": number, "size": size});
        let schema = json!({"type": "object", "properties": properties, "required": ["number"]});
        Clarification::form("How many?", schema)
    }

    /// A form that one choice fills in.
    fn size() -> Clarification {
        let size = json!({"type": "string", "enum": ["small", "large"]});
        let schema = json!({"type": "object", "properties": {"size": size}, "required": ["size"]});
        Clarification::form("Which?", schema)
    }

    fn options() -> Vec<ClarificationOption> {
        [("small", "The small one"), ("large", "The large one")]
            .map(|(id, title)| ClarificationOption::new(id, title))
            .into()
    }

    fn choice() -> Clarification {
        Clarification {
            r#type: "choice".to_owned(),
            question: "Which?".to_owned(),
            options: options(),
            ..Clarification::default()
        }
    }

    fn words() -> Clarification {
        Clarification { r#type: "text".to_owned(), options: Vec::new(), ..choice() }
    }

    #[track_caller]
    fn check(question: &Clarification, written: &str, expected: Result<Given, &str>) {
        let given = Answer::parse(written).unwrap().given(question);
        match (given, expected) {
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{written}: {error}");
            }
            (Ok(given), Ok(expected)) => assert_eq!(given, expected, "{written}"),
            (given, expected) => panic!("{written}: {given:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_question_is_declined_or_put_aside_whatever_it_asks() {
        for question in [form(), size(), choice(), words()] {
            check(&question, "decline", Ok(Given::Declined));
            check(&question, "cancel", Ok(Given::Cancelled));
        }
    }

    #[test]
    fn a_question_is_accepted_as_it_stands() {
        check(&form(), "accept", Err("number"));
        let size = json!({"type": "string", "default": "large"});
        let schema = json!({"type": "object", "properties": {"size": size}});
        let filled = Given::Content(json!({"size": "large"}));
        check(&Clarification::form("Which?", schema), "accept", Ok(filled));
        check(&choice(), "accept", Ok(Given::Option(options().remove(0))));
        check(&words(), "accept", Err(NOTHING));
    }

    #[test]
    fn text_is_an_id_where_there_are_options() {
        for written in ["large", "\"large\""] {
            check(&form(), written, Err("number"));
            check(&size(), written, Ok(Given::Content(json!({"size": "large"}))));
            check(&choice(), written, Ok(Given::Option(options().remove(1))));
            check(&words(), written, Ok(Given::Text("large".to_owned())));
        }
        check(&choice(), "any", Ok(Given::Text("any".to_owned())));
        let yes_or_no = Clarification::form("Go on?", json!({"type": "object", "properties": {}}));
        check(&yes_or_no, "deny", Ok(Given::Declined));
    }

    #[test]
    fn other_json_is_for_forms() {
        let filled = |number: u32| Given::Content(json!({"number": number, "size": "large"}));
        check(&form(), "3", Ok(filled(3)));
        check(&form(), r#"{"number": 4}"#, Ok(filled(4)));
        check(&form(), "2.5", Err("number"));
        check(&form(), "[1]", Err(NO_ANSWER));
        for question in [choice(), words()] {
            for written in ["3", "[1]", "{\"number\": 4}", "null"] {
                check(&question, written, Err(NO_ANSWER));
            }
        }
    }

    #[test]
    fn what_begins_like_json_has_to_be_json() {
        for written in ["{", "[1", "\"large"] {
            let error = Answer::parse(written).unwrap_err().to_string();
            assert!(error.starts_with("the answer is not valid JSON: "), "{error}");
        }
    }
}
