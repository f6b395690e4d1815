//! The images in a request, in base64.
//!
//! **Nothing is fetched.** A URL that a client names, or that somebody has slipped into its
//! conversation, could lead into the operator's own network.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::conversation::claimed::{ClaimedImage, ContentPart};
use crate::limits::tools::FILE_BYTES_MAX;

/// Reads images, if models may see them. Otherwise they are only named.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct ImageReader {
    reads: bool,
}

/// What the model reads in place of an image.
const NOT_SHOWN: &str = "an image, which is not shown";

/// Not all clients write the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl ImageReader {
    /// For messages whose images no model sees.
    pub(super) const NAMING: Self = Self::new(false);

    pub(in crate::server) const fn new(reads: bool) -> Self {
        Self { reads }
    }

    /// The image at a URL. Only `data:` URLs (RFC 2397) have it in them.
    pub(super) fn at_url(self, url: &str) -> ContentPart {
        let Some(data) = data_of(url) else { return self.named("URLs are not fetched") };
        match data.split_once(',') {
            Some((about, base64)) if ends_with_base64(about) => self.in_base64(base64),
            _ => self.named("not valid base64"),
        }
    }

    /// An image in base64.
    pub(super) fn in_base64(self, base64: &str) -> ContentPart {
        if !self.reads {
            return Self::nowhere();
        }
        let Some(bytes) = decode(base64) else { return self.named("not valid base64") };
        if bytes.len() > FILE_BYTES_MAX {
            return self.named(&format!("longer than {} MiB", FILE_BYTES_MAX >> 20));
        }
        match ClaimedImage::read(bytes.into()) {
            Some(image) => ContentPart::Image(image),
            None => self.named("not a PNG, JPEG, GIF or WebP file"),
        }
    }

    /// A note for an image whose data is not in the request.
    pub(super) fn nowhere() -> ContentPart {
        ContentPart::Words(format!("[{NOT_SHOWN}]"))
    }

    /// What stands for an image whose message was stored without it.
    pub(super) fn not_stored(self) -> String {
        self.note("it was not stored with its message")
    }

    fn named(self, reason: &str) -> ContentPart {
        ContentPart::Words(self.note(reason))
    }

    fn note(self, reason: &str) -> String {
        if self.reads { format!("[{NOT_SHOWN}: {reason}]") } else { format!("[{NOT_SHOWN}]") }
    }
}

/// Whether a URL has its data in it.
pub(super) fn is_data(url: &str) -> bool {
    data_of(url).is_some()
}

fn data_of(url: &str) -> Option<&str> {
    let (scheme, data) = url.split_once(':')?;
    scheme.eq_ignore_ascii_case("data").then_some(data)
}

fn ends_with_base64(about: &str) -> bool {
    about.rsplit_once(';').is_some_and(|(_, last)| last.trim().eq_ignore_ascii_case("base64"))
}

/// Decodes base64, which may be in lines.
fn decode(base64: &str) -> Option<Vec<u8>> {
    if base64.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let joined: Vec<u8> = base64.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return BASE64.decode(joined).ok();
    }
    BASE64.decode(base64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: ImageReader = ImageReader::new(true);

    fn note(part: &ContentPart) -> &str {
        match part {
            ContentPart::Words(note) => note,
            ContentPart::Image(_) => "an image",
        }
    }

    #[test]
    fn an_image_is_read_from_its_data() {
        // A PNG file's first eight bytes.
        for url in [
            "data:image/png;base64,iVBORw0KGgo=",
            "DATA:;charset=x;Base64,iVBORw0KGgo",
            "data:text/html;base64,iVBO\r\nRw0K\nGgo=\n",
        ] {
            assert_eq!(note(&READER.at_url(url)), "an image", "{url}");
            let named = ImageReader::NAMING.at_url(url);
            assert_eq!(note(&named), "[an image, which is not shown]", "{url}");
        }
        assert_eq!(READER.at_url("data:;base64,iVBORw0KGgo="), READER.in_base64("iVBORw0KGgo"));
    }

    #[test]
    fn a_note_says_why_there_is_no_image() {
        for (url, reason) in [
            ("https://example.org/a.png", "URLs are not fetched"),
            ("http://169.254.169.254/", "URLs are not fetched"),
            ("file:///etc/passwd", "URLs are not fetched"),
            ("a.png", "URLs are not fetched"),
            ("", "URLs are not fetched"),
            ("data:image/png,%89PNG", "not valid base64"),
            ("data:image/png;base64", "not valid base64"),
            ("data:image/png;base64,iVBORw0KGgo=!", "not valid base64"),
            ("data:image/png;base64,PGh0bWw+", "not a PNG, JPEG, GIF or WebP file"),
            ("data:image/png;base64,", "not a PNG, JPEG, GIF or WebP file"),
        ] {
            let expected = format!("[an image, which is not shown: {reason}]");
            assert_eq!(note(&READER.at_url(url)), expected, "{url}");
            let named = ImageReader::NAMING.at_url(url);
            assert_eq!(note(&named), "[an image, which is not shown]", "{url}");
        }
    }

    #[test]
    fn as_long_as_a_file_may_be_and_one_byte_more() {
        let mut bytes = b"GIF89a".to_vec();
        bytes.resize(FILE_BYTES_MAX, 0);
        assert_eq!(note(&READER.in_base64(&BASE64.encode(&bytes))), "an image");
        bytes.push(0);
        let part = READER.in_base64(&BASE64.encode(&bytes));
        assert_eq!(note(&part), "[an image, which is not shown: longer than 8 MiB]");
    }
}
