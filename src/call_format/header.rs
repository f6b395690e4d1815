//! Headers: what begins each message of an answer, in formats that address them.

/// The header of a message. It says whom the message is for: a tool, the user, or the model itself.
///
/// ```text
///   <|start|> assistant<|channel|>commentary to=functions.now <|constrain|>json <|message|> {} <|call|>
///   opener                                   '- recipient --'                   '-- end --'
///
///   >>> now \n {}
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    /// What opens it.
    pub openers: &'static [&'static str],
    /// What it begins with at the start of an answer, where the prompt has opened it already. `None`
    /// if answers begin with an opener.
    pub start: Option<&'static str>,
    /// What ends it.
    pub end: &'static str,
    /// What comes before the recipient. If nothing does, the header is its recipient.
    pub recipient: &'static str,
    /// The recipients that are no tools.
    pub others: &'static [&'static str],
    /// What it contains if its message is reasoning.
    pub reasoning: Option<&'static str>,
    /// What is written at the end of a message that is not a call.
    pub message_end: &'static str,
}

/// Whom a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressee<'h> {
    /// This tool: the message calls it.
    Tool(&'h str),
    /// The model itself.
    Model,
    /// The user.
    User,
}

impl Header {
    /// What it and its message are marked with, each more than one character.
    pub(super) fn marks<'t>(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        let ends = [self.end, self.message_end];
        self.openers.iter().copied().chain(ends).filter(|mark| mark.len() > 1)
    }

    /// Whom a message with this header is for. `header` is without its end. `None` if it is no header.
    #[must_use]
    pub fn addressee<'h>(&self, header: &'h str) -> Option<Addressee<'h>> {
        if self.is_name() {
            let name = self.openers.iter().find_map(|opener| header.strip_prefix(opener));
            return self.named(name.unwrap_or(header));
        }
        let is_end = |char: char| char.is_whitespace() || char == '<';
        let names = header.match_indices(self.recipient);
        let names = names.filter_map(|(at, mark)| header[at + mark.len()..].split(is_end).next());
        // Some models change their mind within a header.
        let tool = names.filter_map(|name| self.named(name)).find(|it| *it != Addressee::User);
        let is_reasoning = self.reasoning.is_some_and(|mark| header.contains(mark));
        Some(tool.unwrap_or(if is_reasoning { Addressee::Model } else { Addressee::User }))
    }

    /// Whether it is the name of its recipient, and nothing else.
    #[must_use]
    pub const fn is_name(&self) -> bool {
        self.recipient.is_empty()
    }

    fn named<'h>(&self, recipient: &'h str) -> Option<Addressee<'h>> {
        match recipient {
            "" => None,
            name if self.others.contains(&name) => Some(Addressee::User),
            name => Some(Addressee::Tool(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_format::Row;

    #[test]
    fn a_header_says_whom_its_message_is_for() {
        let tool = |name| Some(Addressee::Tool(name));
        for (format, header, expected) in [
            ("harmony", "<|start|>assistant", Some(Addressee::User)),
            ("harmony", "<|channel|>final", Some(Addressee::User)),
            ("harmony", "<|channel|>analysis", Some(Addressee::Model)),
            (
                "harmony",
                "<|channel|>commentary to=functions.f <|constrain|>json",
                tool("functions.f"),
            ),
            ("harmony", " to=functions.f<|channel|>commentary json", tool("functions.f")),
            ("harmony", "<|channel|>analysis to=f", tool("f")),
            (
                "harmony",
                "<|channel|>commentary to=assistant<|channel|>analysis",
                Some(Addressee::Model),
            ),
            ("harmony", "<|channel|>commentary to=assistant to=f", tool("f")),
            ("harmony", "<|channel|>commentary to=", Some(Addressee::User)),
            ("muse", "<|start|>assistant to=self", Some(Addressee::Model)),
            ("muse", " to=user", Some(Addressee::User)),
            ("functionary_v32", ">>>f", tool("f")),
            ("functionary_v32", "all", Some(Addressee::User)),
            ("functionary_v32", ">>>", None),
        ] {
            let row = Row::named(format).unwrap();
            assert_eq!(row.header.as_ref().unwrap().addressee(header), expected, "{header}");
        }
    }
}
