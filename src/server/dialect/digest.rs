//! Short names for ids that clients choose freely.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::conversation::claimed::Adopted;
use crate::conversation::{Choice, ClientInput};

/// A name of this kind for `id`: the same for the same id, and never too long or of characters that
/// have a meaning.
pub(super) fn name(kind: &str, id: &str) -> String {
    format!("{kind}.{}", URL_SAFE_NO_PAD.encode(Sha256::digest(id)))
}

/// The idempotency key of the answer that a request gives, if it gives one. The same answer again joins its turn; another
/// one does not.
pub(super) fn answer(request: &Adopted) -> Option<String> {
    let ClientInput::Answer { clarification_id, choice, .. } = &request.input else { return None };
    let said = match choice {
        Choice::Option(id) => json!({ "option": id }),
        Choice::Text(text) => json!({ "text": text }),
        Choice::Content(content) => json!({ "content": content }),
        Choice::Decline => json!("decline"),
        Choice::Cancel => json!("cancel"),
    };
    Some(name("answer", &json!([clarification_id, said]).to_string()))
}
