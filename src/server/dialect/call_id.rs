//! The ids of calls that the client runs, as clients see them: unique everywhere, and impossible to
//! guess, so that they find the turn again when the client returns a result.
//!
//! ```text
//!   turn 5eef151e-f351-4620-9769-441c3a4f562f, call_3  <->  call_5eef151ef35146209769441c3a4f562f_3
//! ```

use uuid::Uuid;

const PREFIX: &str = "call_";

/// The id outside of a call of this turn.
pub(in crate::server) fn outside(turn_id: &str, call_id: &str) -> String {
    let number = call_id.strip_prefix(PREFIX).unwrap_or(call_id);
    format!("{PREFIX}{}_{number}", turn_id.replace('-', ""))
}

/// The turn, and the call's id in it, if this is such an id.
pub(in crate::server) fn inside(outside: &str) -> Option<(String, String)> {
    let (turn, number) = outside.strip_prefix(PREFIX)?.split_once('_')?;
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
        let id = outside(turn, "call_3");
        assert_eq!(id, "call_5eef151ef35146209769441c3a4f562f_3");
        assert_eq!(inside(&id), Some((turn.to_owned(), "call_3".to_owned())));
    }

    #[test]
    fn other_ids_lead_nowhere() {
        for id in
            ["", "call_", "call_3", "call_x_3", "call_5eef151ef35146209769441c3a4f562f_", "toolu_1"]
        {
            assert_eq!(inside(id), None, "{id}");
        }
    }
}
