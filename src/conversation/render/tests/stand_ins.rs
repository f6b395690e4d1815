//! Sentences in place of what the model has not said, or does not see.

use super::*;

/// The roles and words of the messages after the system message.
fn told(context: &Context, form: Form) -> Vec<(Role, String)> {
    let messages = messages(context, form, &Images::new());
    let words = |message: &Message| match &message.parts[..] {
        [MessagePart::Result { output, .. }] => output.clone(),
        _ => message.text_content().unwrap_or_default().into_owned(),
    };
    messages[1..].iter().map(|message| (message.role, words(message))).collect()
}

fn found() -> Outcome {
    Outcome::Ended(ToolResult::data(json!({ "n": 1 })))
}

#[test]
fn after_a_turn_that_ended_with_results_the_model_reads_that_the_user_has_them() {
    let ending = Some(Ending::Completed(TurnFinish::Stop));
    for (form, told_by, results) in [
        (
            Form::Text,
            Role::User,
            "`look` (call_1) returned: {\"n\":1}\nUse it to answer my question.",
        ),
        (Form::Native, Role::Tool, "{\"n\":1}"),
    ] {
        let mut history = Conversation::default();
        history.push(Turn { ending, ..turn_with(found()) });
        let current = Turn { prompt: "And?".into(), ..Turn::default() };
        let told = told(&Context { history, ..context(current, None, 1000) }, form);
        let expected = [
            (told_by, results),
            (Role::Assistant, "(The user was shown the results.)"),
            (Role::User, "And?"),
        ];
        let expected = expected.map(|(role, words)| (role, words.to_owned()));
        assert_eq!(told[2..], expected, "{form:?}");
    }
}

/// Calls are not shown to a model that can make none.
#[test]
fn in_words_a_call_without_words_is_a_short_sentence() {
    let with = |outcome| {
        let mut turn = turn_with(outcome);
        turn.steps[0].parts.remove(0);
        told(&context(turn, None, 1000), Form::Words)
    };
    let told = with(found());
    let results = "Here is what look found:\nn: 1";
    let expected =
        [(Role::User, "Where?"), (Role::Assistant, "Let me check."), (Role::User, results)];
    assert_eq!(told, expected.map(|(role, words)| (role, words.to_owned())));
    // The call that it repeats has one.
    let told = with(Outcome::NotRun(ToolResult::data(json!({ "n": 1 }))));
    assert_eq!(told, [(Role::User, "Where?".to_owned())]);
}
