//! Ids of responses and of their items. They cannot be guessed, and they lead any node to the
//! session without an index.
//!
//! ```text
//!   resp_ <root: 32 digits> <turn: 32 digits>          session resp-<root>, and the turn in it
//!   msg_  <root: 32 digits> <turn: 32 digits> _ 2      the third item of that response
//! ```

use std::fmt;

use uuid::Uuid;

const RESPONSE: &str = "resp_";
const SESSION: &str = "resp-";

/// The id of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::server) struct ResponseId {
    /// The first response of the chain.
    root: Uuid,
    turn: Uuid,
}

/// The id of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct ItemId<'a> {
    /// The kind of item, such as `msg`.
    pub(in crate::server::dialect) prefix: &'a str,
    pub(in crate::server) response: ResponseId,
    pub(in crate::server::dialect) number: u64,
}

impl ResponseId {
    /// The id of a turn's response. A turn whose session is not kept is a root of its own.
    pub(in crate::server) fn of(session_id: &str, turn_id: &str) -> Self {
        let turn = Uuid::try_parse(turn_id).unwrap_or_default();
        let root = session_id.strip_prefix(SESSION).and_then(|root| Uuid::try_parse(root).ok());
        Self { root: root.unwrap_or(turn), turn }
    }

    /// Reads an id. `None` if no response has such an id.
    pub(in crate::server) fn parse(id: &str) -> Option<Self> {
        Self::from_digits(id.strip_prefix(RESPONSE)?)
    }

    fn from_digits(digits: &str) -> Option<Self> {
        let is_plain = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        if digits.len() != 64 || !digits.bytes().all(is_plain) {
            return None;
        }
        let (root, turn) = digits.split_at(32);
        Some(Self { root: Uuid::try_parse(root).ok()?, turn: Uuid::try_parse(turn).ok()? })
    }

    /// The id of the session that a new chain begins.
    pub(in crate::server) fn new_session(root: Uuid) -> String {
        format!("{SESSION}{}", root.simple())
    }

    /// The session that keeps the response.
    pub(in crate::server) fn session_id(self) -> String {
        Self::new_session(self.root)
    }

    /// The response's turn.
    pub(in crate::server) fn turn_id(self) -> String {
        self.turn.to_string()
    }

    /// The response of another turn in the chain; the same if that is no turn's id.
    pub(in crate::server::dialect) fn in_turn(self, turn_id: &str) -> Self {
        Self { turn: Uuid::try_parse(turn_id).unwrap_or(self.turn), ..self }
    }

    /// The id of an item of the response.
    pub(in crate::server::dialect) fn item(
        self,
        prefix: &str,
        number: impl fmt::Display,
    ) -> String {
        format!("{prefix}_{}{}_{number}", self.root.simple(), self.turn.simple())
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RESPONSE}{}{}", self.root.simple(), self.turn.simple())
    }
}

impl<'a> ItemId<'a> {
    /// Reads an id. `None` if it is not one of ours.
    pub(in crate::server) fn parse(id: &'a str) -> Option<Self> {
        let (rest, number) = id.rsplit_once('_')?;
        let (prefix, digits) = rest.rsplit_once('_')?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_number)?;
        Some(Self { prefix, response: ResponseId::from_digits(digits)?, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: &str = "5eef151e-f351-4620-9769-441c3a4f562f";

    #[test]
    fn an_id_leads_to_its_session_and_turn() {
        let session = ResponseId::new_session(Uuid::from_u128(7));
        let id = ResponseId::of(&session, TURN);
        let text = id.to_string();
        assert_eq!(text, "resp_000000000000000000000000000000075eef151ef35146209769441c3a4f562f");
        assert_eq!(ResponseId::parse(&text), Some(id));
        assert_eq!((id.session_id(), id.turn_id()), (session, TURN.to_owned()));
        let item = id.item("msg", 2);
        assert_eq!(ItemId::parse(&item), Some(ItemId { prefix: "msg", response: id, number: 2 }));
    }

    #[test]
    fn a_turn_without_a_kept_session_is_its_own_root() {
        let id = ResponseId::of("some other session", TURN);
        assert_eq!((id.root, id.turn), (id.turn, Uuid::try_parse(TURN).unwrap()));
    }

    #[test]
    fn other_ids_lead_nowhere() {
        let id = ResponseId::of("s", TURN).to_string();
        let digits = &id[RESPONSE.len()..];
        for id in [
            "",
            "resp_",
            "resp_1",
            digits,
            &id.to_uppercase(),
            &id[..id.len() - 1],
            &format!("{id}0"),
            &format!("resp_{}é", &digits[..62]),
        ] {
            assert_eq!(ResponseId::parse(id), None, "{id}");
        }
        for id in ["msg_1", "msg__", &format!("msg_{digits}_"), &format!("msg_{digits}_+1")] {
            assert_eq!(ItemId::parse(id), None, "{id}");
        }
    }
}
