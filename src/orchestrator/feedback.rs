//! What the model is told about its mistakes, always in the same form: what was wrong, what is
//! allowed, what to do now.
//!
//! Small models read these, hence the short sentences, the allowed values in place and the exact
//! line to write.

use serde_json::json;

use crate::call_format::CallFormat;
use crate::event::{FeedbackReason, TurnFinish};
use crate::limits::tools::{FEEDBACK_BYTES_MAX, LONG_INTEGER_BYTES_SHOWN, REFERRED_BYTES_MAX};
use crate::parser::{ErrorCode, ParseError};
use crate::text;
use crate::tools::{InvalidCall, ToolResult, ToolSpec};
use crate::upstream::ToolChoice;

use super::prompt::NATIVE_EXAMPLE;
use crate::call_format::CallContract;

/// The model neither said nor called anything.
pub(super) const fn empty_response(has_tools: bool) -> &'static str {
    if has_tools {
        "Your last message was empty. Answer the user now: either in words, or with a function call."
    } else {
        "Your last message was empty. Answer the user now, in words."
    }
}

/// The same, if the first did not help.
pub(super) const EMPTY_RESPONSE_AGAIN: &str = "Your message was empty again. Write \
     the answer to the user's last message now, in one or two plain sentences.";

/// The model wrote a result, real or not, instead of an answer.
pub(super) const fn invented_result(has_tools: bool) -> &'static str {
    if has_tools {
        "You wrote the result of a function yourself. Results come from me alone. Call the function, \
         or answer me in words."
    } else {
        "You wrote the result of a function yourself. There is no function to call. Answer me in words."
    }
}

/// The gateway was stopped while a tool ran that changes something.
pub(super) fn outcome_unknown(name: &str) -> String {
    format!(
        "The connection was lost while {name} was running. Nobody knows whether it has done its work. Do not call \
         it again now: tell the user what happened, and let the user decide."
    )
}

/// Tells a model that its call was cut off, and by what.
pub(super) const fn cut_call(by: TurnFinish) -> &'static str {
    match by {
        TurnFinish::ContentFilter => FILTERED_CALL,
        _ => CUT_CALL,
    }
}

/// The token limit cut a call off.
pub(super) const CUT_CALL: &str = "Your function call was cut off by the token limit and was not \
     run. Send a shorter call: less text in its arguments, or several smaller calls.";

/// A filter of the model server cut a call off.
pub(super) const FILTERED_CALL: &str = "Your function call was cut off by a content filter and was \
     not run. Make another call, or answer in words.";

/// To a model whose answer does not have the form that the client wants.
pub(super) fn wrong_form(wrong: &str) -> String {
    let wrong = brief(wrong.to_owned());
    format!(
        "The answer is not in the form that is required: {wrong}. Write it again, and nothing else."
    )
}

/// The message has no call, but this turn has to begin with one.
pub(super) fn call_required(choice: &ToolChoice) -> String {
    let what = match choice {
        ToolChoice::Named(name) => format!("a call to {name}"),
        ToolChoice::Auto | ToolChoice::Required => "a function call".to_owned(),
    };
    format!(
        "Your message had no function call, but {what} must come before the answer. Write it now."
    )
}

/// Cuts a message to the length that feedback may have.
pub(super) fn brief(message: String) -> String {
    if message.len() <= FEEDBACK_BYTES_MAX {
        message
    } else {
        text::cut(&message, FEEDBACK_BYTES_MAX)
    }
}

/// The arguments break the tool's schema.
pub(super) fn invalid_arguments(name: &str, refusal: &InvalidCall) -> String {
    format!("The call to {name} was not run. {refusal}\nWrite it again, corrected.")
}

/// The model knows the tool by name only. This is what it gets instead of the call's result.
pub(super) fn untold(spec: &ToolSpec) -> ToolResult {
    let name = &spec.name;
    let error = format!(
        "The call to {name} was not run, because you did not know yet what {name} takes. Here is \
         its description. If it is what you need, call it again, with arguments that fit its \
         parameters."
    );
    let described =
        json!({ "description": spec.description, "parameters": spec.told_parameters() });
    ToolResult { data: Some(described), ..ToolResult::error(error) }
}

/// A reference to a missing result, with the calls that it could have named.
pub(super) fn bad_reference(name: &str, reference: &str, before: &[String]) -> String {
    let known = match before {
        [] => "no call comes before it in its message".to_owned(),
        before => format!("the calls before it in its message: {}", before.join(", ")),
    };
    let reference = text::quote(reference);
    format!(
        "The arguments of {name} refer to the result {reference}, which does not exist. A reference \
         is the id of an earlier call in the same message and a path through its result, like \
         {{\"$result\": \"call_1.data.id\"}}; {known}. To use a value from an earlier message, write \
         the value itself. Write the call to {name} again, corrected."
    )
}

/// The arguments are fine until the results they refer to are filled in.
pub(super) fn resolved_too_deep(name: &str) -> String {
    format!(
        "The call to {name} was not run. The results that its arguments refer to are nested too \
         deeply. Refer to a smaller part of them, or write the value itself."
    )
}

/// A tool would get another number than the model wrote.
pub(super) fn long_integer(name: &str, number: &str) -> String {
    format!(
        "The call to {name} was not run. The number {} does not fit into 64 bits and would lose digits. If \
         {name} accepts a string there, write the number in quotes. Otherwise, tell the user.",
        text::cut(number, LONG_INTEGER_BYTES_SHOWN)
    )
}

/// The arguments are fine until they get too long with the results they refer to.
pub(super) fn resolved_too_long(name: &str) -> String {
    format!(
        "The call to {name} was not run. The results that its arguments refer to are longer than \
         {REFERRED_BYTES_MAX} bytes in total. Refer to a smaller part of them, or write the value \
         itself."
    )
}

/// The call uses an option that was offered to the user but not chosen.
pub(super) fn not_chosen(name: &str, id: &str) -> String {
    let id = text::quote(id);
    format!(
        "The call to {name} was not run: the user was asked and did not choose {id}. Write it \
         again with the id that the user chose."
    )
}

/// A tool's failure: its error and its guidance, as the model reads them in the result.
pub(super) fn tool_failed(name: &str, result: &ToolResult) -> Option<String> {
    let error = result.error.as_deref()?.trim_end();
    let stop = if error.ends_with(['.', '!', '?']) { "" } else { "." };
    let guidance = result.instruction_for_ai.as_deref().unwrap_or_default();
    Some(format!("The function {name} failed: {error}{stop} {guidance}").trim_end().to_owned())
}

/// The payload is not a call. `cut` is what cut the message off.
pub(super) fn malformed(
    error: &ParseError,
    format: &CallFormat,
    max_payload_bytes: usize,
    contract: CallContract,
    cut: Option<&str>,
) -> (FeedbackReason, String) {
    let example = format.example();
    let (like_this, on_one_line) = if contract.is_in_text() {
        let is_one_line = !example.contains('\n');
        let like_this = if is_one_line { "like this: " } else { "like this:\n" };
        let whole = if is_one_line { "on one line: " } else { like_this };
        (format!("{like_this}{example}"), format!("{whole}{example}"))
    } else {
        (NATIVE_EXAMPLE.to_owned(), NATIVE_EXAMPLE.to_owned())
    };
    match (error.code, cut) {
        (ErrorCode::IncompletePayload | ErrorCode::MissingPayload, Some(cut)) => {
            (FeedbackReason::IncompleteCall, cut.to_owned())
        }
        (ErrorCode::IncompletePayload, None) => (
            FeedbackReason::IncompleteCall,
            format!(
                "Your function call ended before it was complete and was not run. Write it \
                 again, whole, {on_one_line}"
            ),
        ),
        (ErrorCode::PayloadTooLarge, _) => (
            FeedbackReason::PayloadTooLarge,
            format!(
                "Your function call was longer than {max_payload_bytes} bytes and was not run. \
                 Send a shorter call."
            ),
        ),
        (ErrorCode::MissingPayload, None) => (
            FeedbackReason::MalformedCall,
            format!(
                "No call followed {}, so nothing was called. Write: {example}",
                format.openers().next().unwrap_or("the marker")
            ),
        ),
        (
            ErrorCode::UnbalancedPayload
            | ErrorCode::PayloadTooDeep
            | ErrorCode::InvalidJson
            | ErrorCode::InvalidCall,
            _,
        ) => (
            FeedbackReason::MalformedCall,
            format!(
                "Your function call could not be read and was not run: {}. Write it again \
                 {like_this}",
                error.message
            ),
        ),
    }
}
