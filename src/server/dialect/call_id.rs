//! The ids of calls that the client runs, as clients see them: unique everywhere, and impossible to
//! guess, so that they find the turn again when the client returns a result.
//!
//! ```text
//!   turn 5eef151e-f351-4620-9769-441c3a4f562f, call_3  <->  call_5eef151ef35146209769441c3a4f562f_3
//! ```
//! Some APIs have prefixes of their own, which their clients may check.

use uuid::Uuid;

const PREFIX: &str = "call_";

/// The prefixes of the ids that clients know.
const PREFIXES: [&str; 3] = [PREFIX, TOOL_USE, MCP_TOOL_USE];

/// What Anthropic's ids of a client's calls begin with.
pub(super) const TOOL_USE: &str = "toolu_";

/// What Anthropic's ids of a server's calls begin with.
pub(super) const MCP_TOOL_USE: &str = "mcptoolu_";

/// The id by which clients know this turn's call.
pub(in crate::server) fn for_client(turn_id: &str, call_id: &str) -> String {
    with_prefix(PREFIX, turn_id, call_id)
}

/// The same with another prefix.
pub(super) fn with_prefix(prefix: &str, turn_id: &str, call_id: &str) -> String {
    let number = call_id.strip_prefix(PREFIX).unwrap_or(call_id);
    format!("{prefix}{}_{number}", turn_id.replace('-', ""))
}

/// Reads such an id: the turn, and the call's id in it.
pub(in crate::server) fn parse(client_id: &str) -> Option<(String, String)> {
    let rest = PREFIXES.iter().find_map(|prefix| client_id.strip_prefix(prefix))?;
    let (turn, number) = rest.split_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let turn = Uuid::try_parse(turn).ok().filter(|_| is_number)?;
    Some((turn.to_string(), format!("{PREFIX}{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_back_to_its_call() {
        let turn = "5eef151e-f351-4620-9769-441c3a4f562f";
        let id = for_client(turn, "call_3");
        assert_eq!(id, "call_5eef151ef35146209769441c3a4f562f_3");
        assert_eq!(parse(&id), Some((turn.to_owned(), "call_3".to_owned())));
        for prefix in PREFIXES {
            let id = with_prefix(prefix, turn, "call_3");
            assert_eq!(parse(&id), Some((turn.to_owned(), "call_3".to_owned())), "{id}");
        }
    }

    #[test]
    fn other_ids_lead_nowhere() {
        for id in
            ["", "call_", "call_3", "call_x_3", "call_5eef151ef35146209769441c3a4f562f_", "toolu_1"]
        {
            assert_eq!(parse(id), None, "{id}");
        }
    }
}
