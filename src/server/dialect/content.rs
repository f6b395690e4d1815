//! What messages hold, as `OpenAI`'s APIs and others write it: text in parts, and calls' arguments.

use serde_json_borrow::Value;

use super::images::ImageReader;
use crate::conversation::claimed::{Content, ContentPart};

/// The values of a list. An object counts as a list of one.
pub(super) fn listed<'v>(values: &'v Value<'_>) -> &'v [Value<'v>] {
    match values {
        Value::Array(values) => values,
        Value::Object(_) => std::slice::from_ref(values),
        _ => &[],
    }
}

/// The arguments of a call: JSON, also as a text. There may be none.
pub(super) fn arguments_of(arguments: &Value<'_>) -> String {
    match arguments {
        Value::Null => String::new(),
        Value::Str(json) => json.clone().into_owned(),
        other => other.to_string(),
    }
}

/// The text of a message that has no images for the model.
pub(super) fn text_of(content: &Value<'_>) -> String {
    content_of(content, ImageReader::NAMING).into_text()
}

/// What a message says: a string, or parts. A note replaces what is neither text nor an image.
pub(super) fn content_of(content: &Value<'_>, images: ImageReader) -> Content {
    match content {
        Value::Str(text) => text.clone().into_owned().into(),
        content @ Value::Number(_) => content.to_string().into(),
        content => listed(content).iter().filter_map(|part| read_part(part, images)).collect(),
    }
}

fn read_part(part: &Value<'_>, images: ImageReader) -> Option<ContentPart> {
    let text = |key: &str| part.get(key).as_str().map(str::to_owned);
    let words = match part.get("type").as_str() {
        Some("text" | "input_text" | "output_text") => text("text"),
        Some("refusal") => text("refusal"),
        Some("image_url" | "input_image") => {
            return Some(read_image(part.get("image_url"), images));
        }
        Some("input_audio") => Some("[a sound, which is not played]".into()),
        Some("video_url" | "input_video") => Some("[a video, which is not shown]".into()),
        Some("file" | "input_file") => Some("[a file, which is not shown]".into()),
        Some(_) => None,
        None => part.as_str().map(str::to_owned).or_else(|| text("text")),
    };
    words.map(ContentPart::Words)
}

/// An image at a URL, which may be in an object.
fn read_image(image: &Value<'_>, images: ImageReader) -> ContentPart {
    match image.as_str().or_else(|| image.get("url").as_str()) {
        Some(url) => images.at_url(url),
        None => ImageReader::nowhere(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_is_read_from_any_of_its_fields() {
        let url = "data:image/gif;base64,R0lGODlh";
        let reader = ImageReader::new(true);
        for part in [
            json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}}),
            json!({"type": "image_url", "image_url": url}),
            json!({"type": "input_image", "image_url": url}),
        ] {
            let content =
                content_of(&(&json!([{"type": "text", "text": "a"}, part, "b"])).into(), reader);
            assert_eq!((content.text(), content.images()), ("a\n\nb", 1), "{part}");
            assert_eq!(text_of(&(&part).into()), "[an image, which is not shown]", "{part}");
        }
        for (part, reason) in [
            (json!({"type": "input_image", "file_id": "file_1"}), ""),
            (json!({"type": "image_url", "image_url": null}), ""),
            (json!({"type": "image_url", "image_url": "https://a"}), ": URLs are not fetched"),
        ] {
            let note = format!("[an image, which is not shown{reason}]");
            assert_eq!(content_of(&(&part).into(), reader), note.into(), "{part}");
        }
    }
}
