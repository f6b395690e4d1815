//! Whether a model server takes images.
//!
//! ```text
//!             a request with images is answered
//!   unknown ────────────────────────────────────> taken
//!      │                                            a refused one is about these images
//!      └──────> refused: it is left alone with images until it may have been replaced
//!   refused with images, answered without
//! ```
//! No server says so beforehand, and each words its refusal differently. So a request that is
//! refused is made again without images, and what counts is whether that helps.

use parking_lot::Mutex;

/// What is known about a server.
#[derive(Debug, Default)]
pub(super) struct ImageSupport(Mutex<Known>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    #[default]
    Nothing,
    Taken,
    Refused,
}

impl ImageSupport {
    pub(super) fn is_refused(&self) -> bool {
        *self.0.lock() == Known::Refused
    }

    /// The server has answered a request with images.
    pub(super) fn note_taken(&self) {
        *self.0.lock() = Known::Taken;
    }

    /// The server has answered a request only without its images. Returns whether that is taken
    /// for its way with all images.
    pub(super) fn note_refused(&self) -> bool {
        let mut known = self.0.lock();
        if *known == Known::Nothing {
            *known = Known::Refused;
        }
        *known == Known::Refused
    }

    /// Forgets what is known, because the server may have been replaced.
    pub(super) fn forget(&self) {
        *self.0.lock() = Known::Nothing;
    }
}

/// Whether a request that got this answer may have been refused for its images. A server that
/// blames itself, as llama.cpp does, has to name them: it may just have failed.
pub(super) fn may_be_the_reason(status: u16, body: &str) -> bool {
    match status {
        400 | 413 | 415 | 422 => true,
        500 | 501 => body.to_ascii_lowercase().contains("image"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_never_took_an_image_is_left_alone() {
        let support = ImageSupport::default();
        assert!(!support.is_refused());
        assert!(support.note_refused());
        assert!(support.is_refused());
        support.forget();
        assert!(!support.is_refused());
    }

    #[test]
    fn failures_of_the_server_itself_name_images() {
        let llama = "image input is not supported - hint: .. provide the mmproj";
        assert!(may_be_the_reason(500, llama));
        assert!(!may_be_the_reason(500, "out of memory"));
        assert!(may_be_the_reason(400, "expected a string"));
        assert!(!may_be_the_reason(401, "image"));
    }

    #[test]
    fn a_server_that_took_one_is_shown_others() {
        let support = ImageSupport::default();
        support.note_taken();
        assert!(!support.note_refused());
        assert!(!support.is_refused());
    }
}
