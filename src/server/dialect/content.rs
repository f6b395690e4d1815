//! What messages hold, as `OpenAI`'s APIs and others write it: text in parts, and calls' arguments.

use serde_json::Value;

/// The values of a list, also if it is a single one.
pub(super) fn listed(values: &Value) -> &[Value] {
    match values {
        Value::Array(values) => values,
        Value::Object(_) => std::slice::from_ref(values),
        _ => &[],
    }
}

/// The arguments of a call: JSON, also as a text. There may be none.
pub(super) fn arguments_of(arguments: &Value) -> String {
    match arguments {
        Value::Null => String::new(),
        Value::String(json) => json.clone(),
        other => other.to_string(),
    }
}

/// The text of a message: a string, or parts. What is no text is named.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        content => {
            let texts = listed(content).iter().filter_map(text_of_part);
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

fn text_of_part(part: &Value) -> Option<String> {
    let text = |key: &str| part[key].as_str().map(str::to_owned);
    match part["type"].as_str() {
        Some("text" | "input_text" | "output_text") => text("text"),
        Some("refusal") => text("refusal"),
        Some("image_url" | "input_image") => Some("[an image, which is not shown]".into()),
        Some("input_audio") => Some("[a sound, which is not played]".into()),
        Some("video_url" | "input_video") => Some("[a video, which is not shown]".into()),
        Some("file" | "input_file") => Some("[a file, which is not shown]".into()),
        Some(_) => None,
        None => part.as_str().map(str::to_owned).or_else(|| text("text")),
    }
}
