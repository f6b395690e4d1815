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
    /// What opens it. The role of a message directly follows the first one, if there are several.
    pub openers: &'static [&'static str],
    /// What it begins with where its opener is missing: the prompt has written it, or the server has left it
    /// out. That may be at the start of an answer and after a message.
    pub starts: &'static [&'static str],
    /// What ends it.
    pub end: &'static str,
    /// What comes before the recipient. If nothing does, the header is its recipient.
    pub recipient: &'static str,
    /// The recipients that are no tools.
    pub others: &'static [&'static str],
    /// The one of them that is the model itself.
    pub itself: Option<&'static str>,
    /// The tool that may be addressed in code, if it takes one text. A text alone is no call of any other.
    pub code: Option<&'static str>,
    /// What comes before the channel, the channel of reasoning and that of answers.
    pub channels: Option<[&'static str; 3]>,
    /// Words that a header may contain. Any other word shows that its end was forgotten.
    pub words: &'static [&'static str],
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
            return match name.unwrap_or(header).trim_end_matches('\r') {
                "" => None,
                name if self.others.contains(&name) => Some(Addressee::User),
                name => Some(Addressee::Tool(name)),
            };
        }
        let names = self.recipients(header);
        let mut tools = names.iter().filter(|name| !name.is_empty() && !self.others.contains(name));
        if let Some(tool) = tools.next() {
            return Some(Addressee::Tool(tool));
        }
        let is_own =
            names.iter().any(|name| Some(*name) == self.itself) || self.is_reasoning(header);
        // Results and questions that the model invents.
        let is_invented = !self.is_own_role(self.role(header)) && !self.is_answer(header);
        Some(if is_own || is_invented { Addressee::Model } else { Addressee::User })
    }

    /// The recipients in a header, perhaps in quotes.
    fn recipients<'h>(&self, header: &'h str) -> Vec<&'h str> {
        let mark = self.recipient.trim_start();
        let is_apart = |at: &usize| !header[..*at].ends_with(|char: char| char.is_alphanumeric());
        let found = header.match_indices(mark).map(|(at, _)| at).filter(is_apart);
        let after = found.map(|at| header[at + mark.len()..].trim_start_matches([' ', '"', '\'']));
        after.map(name).collect()
    }

    /// Whether its last channel is that of reasoning.
    #[must_use]
    pub fn is_reasoning(&self, header: &str) -> bool {
        self.channels.is_some_and(|[_, reasoning, _]| self.channel(header).starts_with(reasoning))
    }

    fn is_answer(&self, header: &str) -> bool {
        self.channels.is_some_and(|[_, _, answer]| self.channel(header).starts_with(answer))
    }

    /// What begins with its last channel. Where a server leaves out the mark before it, it follows the role.
    fn channel<'h>(&self, header: &'h str) -> &'h str {
        let Some([mark, ..]) = self.channels else { return "" };
        let after_role = || {
            let text = header.strip_prefix(self.openers[0]).unwrap_or(header);
            text.strip_prefix(ROLE).unwrap_or(text)
        };
        header.rsplit_once(mark).map_or_else(after_role, |(_, rest)| rest).trim_start()
    }

    /// Whether messages with this role are the model's own. Some models run the channel into it.
    fn is_own_role(&self, role: &str) -> bool {
        role.is_empty() || role.to_ascii_lowercase().starts_with(ROLE) || self.words.contains(&role)
    }

    /// Whether it is the name of its recipient, and nothing else.
    #[must_use]
    pub const fn is_name(&self) -> bool {
        self.recipient.is_empty()
    }

    /// How much of this is a header whose end was forgotten. `None` if it is talk, as a name alone is.
    ///
    /// ```text
    ///   <|channel|>final Hello there          <|channel|>commentary to=functions.now {}
    ///   '------------- 17                     '---------------------------------- 39
    /// ```
    #[must_use]
    pub fn length_without_end(&self, header: &str) -> Option<usize> {
        if self.is_name() {
            return None;
        }
        let opened = |opener: &&str| header.rfind(*opener).map(|at| at + opener.len());
        let start = self.openers.iter().filter_map(opened).max().unwrap_or_default();
        let before = start.saturating_sub(self.openers[0].len());
        let role = self.role(header.get(before..).unwrap_or_default());
        let mut rest = &header[start + role.len()..];
        let mut is_header = !role.is_empty() && self.is_own_role(role);
        while let Some(length) = self.word_length(rest.trim_start()) {
            rest = &rest.trim_start()[length..];
            is_header = true;
        }
        is_header.then(|| header.len() - rest.trim_start().len())
    }

    /// The role that a header begins with.
    fn role<'h>(&self, header: &'h str) -> &'h str {
        header.strip_prefix(self.openers[0]).map_or("", name)
    }

    /// The length of the word of a header with which this begins.
    fn word_length(&self, text: &str) -> Option<usize> {
        let mark = self.recipient.trim_start();
        if let Some(rest) = text.strip_prefix(mark) {
            return Some(mark.len() + name(rest).len());
        }
        let is_word = |word: &&&str| {
            text.strip_prefix(**word)
                .is_some_and(|rest| word.ends_with('>') || name(rest).is_empty())
        };
        self.words.iter().find(is_word).map(|word| word.len())
    }
}

/// The role of the model's own messages.
const ROLE: &str = "assistant";

/// The name that a text begins with.
fn name(text: &str) -> &str {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '-');
    &text[..text.find(|char| !is_part(char)).unwrap_or(text.len())]
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
            ("harmony", "<|channel|>analysis<|channel|>final", Some(Addressee::User)),
            (
                "harmony",
                "<|start|>functions.f to=assistant<|channel|>commentary",
                Some(Addressee::Model),
            ),
            ("harmony", "<|start|>user", Some(Addressee::Model)),
            ("harmony", "<|start|>bash<|channel|>final", Some(Addressee::User)),
            ("harmony", "<|start|>assistantassistant<|channel|>final", Some(Addressee::User)),
            ("harmony", "<|start|>commentary to=functions.f", tool("functions.f")),
            ("harmony", "assistantanalysis", Some(Addressee::Model)),
            ("harmony", "<|start|>assistant analysis", Some(Addressee::Model)),
            ("harmony", "<|channel|>to=f", tool("f")),
            ("harmony", "<|channel|>commentary\nto= \"functions.f\"", tool("functions.f")),
            ("muse", "<|start|>assistant to=self", Some(Addressee::Model)),
            ("muse", " to=user", Some(Addressee::User)),
            ("functionary_v32", ">>>f", tool("f")),
            ("functionary_v32", "all", Some(Addressee::User)),
            ("functionary_v32", "f\r", tool("f")),
            ("functionary_v32", ">>>", None),
        ] {
            let row = Row::named(format).unwrap();
            assert_eq!(row.header.as_ref().unwrap().addressee(header), expected, "{header}");
        }
    }

    #[test]
    fn a_header_without_its_end_goes_as_far_as_its_words() {
        for (header, rest) in [
            ("<|channel|>final Hello there", Some("Hello there")),
            ("<|channel|>analysis", Some("")),
            ("<|channel|>finally", None),
            ("<|channel|> is a token", None),
            ("<|channel|>commentary to=functions.f <|constrain|>json{", Some("{")),
            ("<|channel|>commentary to=functions.f.", Some("")),
            ("<|start|>assistant to=f\n\nHm", Some("Hm")),
            ("<|start|> here", None),
            ("<|start|>assistant", Some("")),
            ("<|channel|>??<|channel|>final Yes", Some("Yes")),
            (" to=f", Some("")),
            ("assistant to=f x", Some("x")),
        ] {
            let row = Row::named("harmony").unwrap();
            let length = row.header.as_ref().unwrap().length_without_end(header);
            assert_eq!(length.map(|length| &header[length..]), rest, "{header}");
        }
    }
}
