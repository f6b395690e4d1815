//! Images inside a request, as `data:` URLs (RFC 2397).

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use crate::upstream::Image;

/// An image, written as `data:image/png;base64,..` straight into the request.
#[derive(Debug)]
pub(super) struct DataUrl<'a>(pub(super) &'a Image);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Image { mime_type, bytes, .. } = self.0;
        let base64 = Base64Display::new(bytes, &STANDARD);
        serializer.collect_str(&format_args!("data:{mime_type};base64,{base64}"))
    }
}
