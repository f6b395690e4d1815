//! Instructions that a request has in two places.

/// Those beside the list of messages, and then those in it.
pub(super) fn join(beside: Option<&str>, within: Option<String>) -> Option<String> {
    match (beside, within) {
        (Some(beside), Some(within)) => Some(format!("{beside}\n\n{within}")),
        (beside, within) => beside.map(str::to_owned).or(within),
    }
}
