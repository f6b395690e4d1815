//! Answers of clients that know nothing of questions: the user has read one as text, and what they
//! write next may answer it.

use super::{Answer, Choice, Conversation, Question};

impl Conversation {
    /// The answer that these words give to the open question, if they do.
    pub(super) fn answer_in(
        &self,
        words: &str,
        is_parked: impl Fn(&str) -> bool,
    ) -> Option<Box<Answer>> {
        let asked = self.open_questions().first().filter(|asked| !asked.has_expired(is_parked))?;
        let choice = asked.choice_in(words)?;
        self.answer(&asked.clarification_id, choice).ok()
    }
}

impl Question {
    /// The choice that these words make, if they make one. Loose words neither approve a call nor
    /// refuse it: "yes, but first .." must not run it, and "no, the other one" asks for more than
    /// that it does not run.
    fn choice_in(&self, words: &str) -> Option<Choice> {
        let asked = &self.clarification;
        let option = asked.option_in(words).map(|option| Choice::Option(option.id.clone()));
        let takes_text = asked.takes_text() && !self.is_confirmation();
        option.or_else(|| takes_text.then(|| Choice::Text(words.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::conversation::{ClientInput, Ending, Given, Opening, Turn};
    use crate::event::TurnFinish;
    use crate::tools::{Clarification, ClarificationOption, Continuation, Source};

    fn asked(clarification: Clarification, continuation: Continuation) -> Conversation {
        let question = Question {
            clarification_id: "t.1".to_owned(),
            call_id: "call_1".to_owned(),
            tool_name: "look".to_owned(),
            source: Source::default(),
            clarification,
            arguments: None,
            continuation,
        };
        let ending = Some(Ending::Completed(TurnFinish::ClarificationNeeded));
        let mut history = Conversation::default();
        history.push(Turn { questions: vec![question], ending, ..Turn::default() });
        history
    }

    fn choice(kind: &str, options: &[(&str, &str)]) -> Clarification {
        let options = options.iter().map(|(id, title)| ClarificationOption::new(*id, *title));
        let (r#type, question) = (kind.to_owned(), "Which?".to_owned());
        Clarification { r#type, question, options: options.collect(), ..Clarification::default() }
    }

    /// `None` if the words are a prompt.
    fn given(history: &Conversation, words: &str) -> Option<Given> {
        match history.open(&ClientInput::Words(words.to_owned()), |_| false).unwrap() {
            Opening::Answer(answer) => Some(answer.given),
            Opening::Prompt(prompt) => {
                assert_eq!(prompt, words);
                None
            }
            Opening::Results(_) => unreachable!("words are no results"),
        }
    }

    fn text(words: &str) -> Given {
        Given::Text(words.to_owned())
    }

    #[test]
    fn words_that_name_an_option_choose_it() {
        let history =
            asked(choice("choice", &[("a", "Doe"), ("b", "Smith")]), Continuation::default());
        let chosen = |at: usize| {
            let open = &history.open_questions()[0].clarification.options;
            Some(Given::Option(open[at].clone()))
        };
        assert_eq!(given(&history, "2."), chosen(1));
        assert_eq!(given(&history, "doe"), chosen(0));
        assert_eq!(given(&history, "b"), chosen(1));
        assert_eq!(given(&history, "Neither of them."), None, "it takes no text");
    }

    #[test]
    fn other_words_answer_a_question_that_takes_text() {
        let free = asked(choice("text", &[]), Continuation::default());
        assert_eq!(given(&free, "Berlin, I think."), Some(text("Berlin, I think.")));
        assert_eq!(given(&free, "1"), Some(text("1")), "there is no option");
        assert_eq!(given(&free, " "), None, "it says nothing");
        let options = [("a", "John"), ("b", "John"), ("c", "Jack")];
        let both = asked(choice("choice_or_text", &options), Continuation::default());
        assert_eq!(given(&both, "Jim"), Some(text("Jim")));
        assert_eq!(given(&both, "John"), Some(text("John")), "two have this title");
        assert!(matches!(given(&both, "jack"), Some(Given::Option(_))));
    }

    #[test]
    fn loose_words_approve_nothing() {
        let options = [("approve", "Yes"), ("approve_session", "Yes, always"), ("deny", "No")];
        let definition = "d".to_owned();
        let approval = Continuation::Approval { definition };
        let history = asked(choice("confirmation", &options), approval);
        let approved = |for_session| Some(Given::Approved { for_session });
        for words in ["1", "1.", "Yes", " YES\n", "approve"] {
            assert_eq!(given(&history, words), approved(false), "{words}");
        }
        for words in ["2", "yes, always", "approve_session"] {
            assert_eq!(given(&history, words), approved(true), "{words}");
        }
        for words in ["3", "no", "deny"] {
            assert_eq!(given(&history, words), Some(Given::Refused(None)), "{words}");
        }
        for words in
            ["y", "yes!", "yes please", "Yes, always.", "ok", "1 and 2", "12", "no, the other one"]
        {
            assert_eq!(given(&history, words), None, "{words}");
        }
    }

    #[test]
    fn a_form_is_answered_if_words_can_fill_it_in() {
        let form = |properties: Value| {
            let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
            let schema = json!({"type": "object", "properties": properties, "required": required});
            asked(Clarification::form("What?", schema), Continuation::default())
        };
        let one = form(json!({"size": {"type": "string"}}));
        assert_eq!(given(&one, "big"), Some(Given::Content(json!({"size": "big"}))));
        let sizes = form(json!({"size": {"type": "string", "enum": ["small", "big"]}}));
        assert_eq!(given(&sizes, "2"), Some(Given::Content(json!({"size": "big"}))));
        let number = form(json!({"size": {"type": "integer"}}));
        assert_eq!(given(&number, "as big as a house"), None);
        let several = form(json!({"a": {"type": "string"}, "b": {"type": "string"}}));
        assert_eq!(given(&several, "big"), None);
    }

    #[test]
    fn a_page_takes_no_words_but_its_options() {
        let page = Clarification::page("Sign in.", "https://example.org");
        let history = asked(page, Continuation::default());
        assert!(matches!(given(&history, "1"), Some(Given::Option(_))));
        assert_eq!(given(&history, "No"), Some(Given::Declined));
        assert_eq!(given(&history, "I have done that."), None);
    }

    #[test]
    fn words_for_a_call_that_was_given_up_are_a_prompt() {
        let history = asked(choice("text", &[]), Continuation::Open);
        assert_eq!(given(&history, "Berlin"), None);
        let opening =
            history.open(&ClientInput::Words("Berlin".to_owned()), |id| id == "t.1").unwrap();
        assert!(matches!(opening, Opening::Answer(_)));
    }

    #[test]
    fn without_a_question_words_are_a_prompt() {
        assert_eq!(given(&Conversation::default(), "1"), None);
    }
}
