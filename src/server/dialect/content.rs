//! What messages hold, as `OpenAI`'s APIs and others write it: text in parts, and calls' arguments.

use super::images::ImageReader;
use super::json::Json;
use crate::conversation::claimed::{Content, ContentPart};

/// The arguments of a call: JSON, also as a text. There may be none.
pub(super) fn arguments_of(arguments: Option<&impl Json>) -> String {
    match arguments {
        Some(arguments) if !arguments.is_null() => {
            arguments.text().map_or_else(|| arguments.to_string(), str::to_owned)
        }
        _ => String::new(),
    }
}

/// The text of a message that has no images for the model.
pub(super) fn text_of(content: &impl Json) -> String {
    content_of(content, ImageReader::NAMING).into_text()
}

/// What a message says: a string, or parts. A note replaces what is neither text nor an image.
pub(super) fn content_of(content: &impl Json, images: ImageReader) -> Content {
    match content.text() {
        Some(text) => text.into(),
        None if content.is_number() => content.to_string().into(),
        None => content.listed().iter().filter_map(|part| read_part(part, images)).collect(),
    }
}

/// What a user says, read from these parts. If none of them can be read, a note says so: without a word, the model would
/// go on with its last answer.
pub(super) fn of_user<J: Json>(parts: &[J], read: Content) -> Content {
    let is_text = |part: &J| match part.text_at("type") {
        None => part.text().is_some() || part.field("text").is_some(),
        Some(kind) => matches!(kind, "text" | "input_text" | "output_text"),
    };
    if read.is_empty() && !parts.iter().all(is_text) { NOT_SHOWN.into() } else { read }
}

/// Stands for a user's message of which nothing can be read.
const NOT_SHOWN: &str = "[something that is not shown]";

/// What a call's result says: what could be `read` of it or, if that is nothing, the JSON as it was written.
pub(super) fn result_of<J: Json>(written: &J, read: Content) -> Content {
    let is_empty_text = |part: &J| part.text() == Some("") || part.text_at("text") == Some("");
    let says_nothing = written.is_null()
        || is_empty_text(written)
        || written.array().is_some_and(|parts| parts.iter().all(is_empty_text));
    if read.is_empty() && !says_nothing { written.to_string().into() } else { read }
}

fn read_part(part: &impl Json, images: ImageReader) -> Option<ContentPart> {
    let text = |key: &str| part.text_at(key).map(str::to_owned);
    let words = match part.text_at("type") {
        Some("text" | "input_text" | "output_text") => text("text"),
        Some("refusal") => text("refusal"),
        Some("image_url" | "input_image") => {
            return Some(read_image(part.field("image_url"), images));
        }
        // As MCP writes them.
        Some("image") => return Some(image_of(part.text_at("data"), images)),
        Some("input_audio" | "audio") => Some("[a sound, which is not played]".into()),
        Some("video_url" | "input_video") => Some("[a video, which is not shown]".into()),
        Some("file" | "input_file") => Some("[a file, which is not shown]".into()),
        Some(_) => None,
        None => part.text().map(str::to_owned).or_else(|| text("text")),
    };
    words.map(ContentPart::Words)
}

fn image_of(base64: Option<&str>, images: ImageReader) -> ContentPart {
    base64.map_or_else(ImageReader::nowhere, |base64| images.in_base64(base64))
}

/// An image at a URL, which may be in an object.
fn read_image<V: Json>(image: Option<&V>, images: ImageReader) -> ContentPart {
    let url = image.and_then(|image| image.text().or_else(|| image.text_at("url")));
    url.map_or_else(ImageReader::nowhere, |url| images.at_url(url))
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
            let content = content_of(&json!([{"type": "text", "text": "a"}, part, "b"]), reader);
            assert_eq!((content.text(), content.images()), ("a\n\nb", 1), "{part}");
            assert_eq!(text_of(&part), "[an image, which is not shown]", "{part}");
        }
        for (part, reason) in [
            (json!({"type": "input_image", "file_id": "file_1"}), ""),
            (json!({"type": "image_url", "image_url": null}), ""),
            (json!({"type": "image_url", "image_url": "https://a"}), ": URLs are not fetched"),
        ] {
            let note = format!("[an image, which is not shown{reason}]");
            assert_eq!(content_of(&part, reader), note.into(), "{part}");
        }
    }
}
