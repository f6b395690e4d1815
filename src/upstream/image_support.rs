//! Whether a model server takes images, and which ones it refused.
//!
//! ```text
//!             the model answers a request with images
//!   unknown ──────────────────────────────────────────> supported
//!      │                                 from then on, a refusal is about the images in it
//!      └──────> refused: it gets no more images until it may have been replaced
//!   refused with images, answered without: twice, with other images, unless the server says that it takes none
//! ```
//! No server says so beforehand, and each words its refusal differently. So a request that is
//! refused is made again without images, and what counts is whether that helps. The images of the
//! refused request are not sent to this server again: it would refuse every later round too. One refusal may be about
//! one image: a file that is damaged must not blind the model for everyone.

use std::collections::VecDeque;
use std::mem;

use parking_lot::Mutex;

use super::Images;
use super::server_error::ServerError;
use crate::limits::upstream::REFUSED_IMAGES_MAX;

/// What is known about a server.
#[derive(Debug, Default)]
pub(super) struct ImageSupport(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    support: Support,
    /// The ids of the images in refused requests, oldest first.
    refused: VecDeque<String>,
    /// Whether some of them were refused for what they are, and not for their size.
    has_refused: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Support {
    #[default]
    Unknown,
    Supported,
    Refused,
}

/// What a server may have refused about a request with images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageRefusal {
    /// That there are images.
    AllImages,
    /// That there are images, or one of these.
    Images,
    /// Its size, which says nothing about other images.
    Size,
}

impl ImageSupport {
    /// Whether the server gets no more images.
    pub(super) fn is_refused(&self) -> bool {
        self.0.lock().support == Support::Refused
    }

    /// Those of these images that the server has not refused.
    pub(super) fn not_refused(&self, images: &Images) -> Images {
        let known = self.0.lock();
        if known.support == Support::Refused {
            return Images::new();
        }
        let kept = images.iter().filter(|(id, _)| !known.refused.contains(*id));
        kept.map(|(id, image)| (id.clone(), image.clone())).collect()
    }

    /// The model has begun to answer a request with images.
    pub(super) fn note_supported(&self) {
        self.0.lock().support = Support::Supported;
    }

    /// The server has answered a request only without these images. Returns whether the server is
    /// now considered to refuse all images.
    pub(super) fn note_refused(&self, ids: Vec<String>, refusal: ImageRefusal) -> bool {
        let mut known = self.0.lock();
        let is_refused = match refusal {
            ImageRefusal::AllImages => true,
            // Of requests at the same time, several may have had the same.
            ImageRefusal::Images if ids.iter().all(|id| known.refused.contains(id)) => false,
            ImageRefusal::Images => mem::replace(&mut known.has_refused, true),
            ImageRefusal::Size => false,
        };
        if is_refused && known.support == Support::Unknown {
            known.support = Support::Refused;
        }
        known.refused.extend(ids);
        let surplus = known.refused.len().saturating_sub(REFUSED_IMAGES_MAX);
        known.refused.drain(..surplus);
        known.support == Support::Refused
    }

    /// Forgets what is known, because the server may have been replaced.
    pub(super) fn forget(&self) {
        *self.0.lock() = Known::default();
    }
}

impl ImageRefusal {
    /// What this answer may have refused, if the request had images. An answer that usually means
    /// something else has to name images, or what is wrong with the message that holds them:
    /// llama.cpp answers 500 if the chat template allows no user message there.
    pub(super) fn suspected(status: u16, body: &str, error: &ServerError) -> Option<Self> {
        if status == 413 || error.is_context_overflow() {
            return Some(Self::Size);
        }
        let body = body.to_ascii_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| body.contains(word));
        let suspected = match status {
            400 | 415 | 422 => true,
            404 | 500 | 501 => names(&["image", "vision", "multimodal", "content type", "jinja"]),
            _ => false,
        };
        let takes_none = [
            "image input is not supported",
            "support image input",
            "does not support image",
            "not a multimodal",
            "no model with vision",
            "mmproj",
        ];
        let refused = if names(&takes_none) { Self::AllImages } else { Self::Images };
        suspected.then_some(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Image;

    fn images(ids: impl IntoIterator<Item = usize>) -> Images {
        let image = |id: usize| {
            let image = Image::read(id.to_string(), "GIF89a".into()).unwrap();
            (id.to_string(), image)
        };
        ids.into_iter().map(image).collect()
    }

    /// How many of these images the server still gets.
    fn left(support: &ImageSupport, ids: impl IntoIterator<Item = usize>) -> usize {
        support.not_refused(&images(ids)).len()
    }

    #[test]
    fn a_server_that_never_took_an_image_gets_no_more() {
        let support = ImageSupport::default();
        assert!(!support.is_refused());
        assert!(support.note_refused(vec!["0".into()], ImageRefusal::AllImages));
        assert!(support.is_refused());
        assert_eq!(left(&support, 0..2), 0);
        support.forget();
        assert!(!support.is_refused());
        assert_eq!(left(&support, 0..2), 2);
    }

    #[test]
    fn one_image_may_be_damaged_but_not_a_second_one() {
        let support = ImageSupport::default();
        for _ in 0..2 {
            assert!(!support.note_refused(vec!["0".into()], ImageRefusal::Images));
        }
        assert_eq!(left(&support, 0..3), 2);
        assert!(support.note_refused(vec!["1".into()], ImageRefusal::Images));
        assert_eq!(left(&support, 0..3), 0);
        support.forget();
        assert!(!support.note_refused(vec!["0".into()], ImageRefusal::Images));
    }

    #[test]
    fn damaged_images_do_not_count_once_one_was_seen() {
        let support = ImageSupport::default();
        support.note_supported();
        for id in 0..3 {
            assert!(!support.note_refused(vec![id.to_string()], ImageRefusal::Images));
        }
        assert_eq!(left(&support, 0..4), 1);
    }

    #[test]
    fn a_server_that_took_one_gets_others() {
        let support = ImageSupport::default();
        support.note_supported();
        assert!(!support.note_refused(vec!["0".into()], ImageRefusal::Images));
        assert!(!support.is_refused());
        assert_eq!(left(&support, 0..3), 2);
    }

    #[test]
    fn images_that_were_too_large_say_nothing_about_others() {
        let support = ImageSupport::default();
        assert!(!support.note_refused(vec!["0".into()], ImageRefusal::Size));
        assert_eq!(left(&support, 0..3), 2);
    }

    #[test]
    fn the_oldest_refused_images_are_forgotten() {
        let support = ImageSupport::default();
        let ids = |range: std::ops::Range<usize>| range.map(|id| id.to_string()).collect();
        support.note_refused(ids(0..REFUSED_IMAGES_MAX), ImageRefusal::Size);
        assert_eq!(left(&support, 0..REFUSED_IMAGES_MAX), 0);
        support.note_refused(vec!["new".into()], ImageRefusal::Size);
        assert_eq!(left(&support, 0..REFUSED_IMAGES_MAX), 1);
        assert_eq!(left(&support, [0]), 1);
    }

    #[test]
    fn what_a_refusal_may_be_about_is_read_from_status_and_words() {
        use ImageRefusal::{AllImages, Images, Size};

        let full = r#"{"error":{"code":400,"message":"..","type":"exceed_context_size_error"}}"#;
        for (status, body, expected) in [
            (400, "expected a string", Some(Images)),
            (415, "", Some(Images)),
            (422, "", Some(Images)),
            (400, full, Some(Size)),
            (413, "", Some(Size)),
            (400, "cannot identify image file", Some(Images)),
            (400, "An exception occurred while loading multimodal data: bad PNG", Some(Images)),
            (400, "Llama-3.2-11B-Vision-Instruct cannot read it", Some(Images)),
            (400, "model does not support image content", Some(AllImages)),
            (400, "text-only is not a multimodal model", Some(AllImages)),
            (500, "image input is not supported - hint: .. provide the mmproj", Some(AllImages)),
            (500, "Jinja Exception: conversation roles must alternate", Some(Images)),
            (500, "out of memory", None),
            (404, "No endpoints found that support image input", Some(AllImages)),
            (404, "no model with vision", Some(AllImages)),
            (404, "unsupported content type", Some(Images)),
            (404, "no such model", None),
            (401, "image", None),
        ] {
            let error = ServerError::from_body(body.as_bytes());
            assert_eq!(ImageRefusal::suspected(status, body, &error), expected, "{status} {body}");
        }
    }
}
