//! Short names for ids that clients choose freely.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// A name of this kind for `id`: the same for the same id, and never too long or of characters that
/// have a meaning.
pub(super) fn name(kind: &str, id: &str) -> String {
    format!("{kind}.{}", URL_SAFE_NO_PAD.encode(Sha256::digest(id)))
}
