//! What a line at the prompt means: a prompt, or a command.

/// A line at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'l> {
    /// Nothing but white space.
    Empty,
    Prompt(&'l str),
    Help,
    Session,
    Tools,
    New,
    Quit,
    /// It looks like a command, and is none.
    Unknown(&'l str),
}

/// What `/help` shows.
pub(super) const HELP: &str = "\
  /session  print the id of this session
  /tools    list the tools
  /new      begin a new session
  /quit     leave; Ctrl-D does the same

  Ctrl-C cancels a turn, and leaves at the prompt. A pasted text is one prompt, however many
  lines it has. A prompt that begins like a command needs a space before it.
";

impl<'l> Line<'l> {
    /// A command is one word: a path, or a question about one, is a prompt.
    pub(super) fn parse(line: &'l str) -> Self {
        let end = line.trim_end();
        let is_word = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
        match end.strip_prefix('/').filter(|name| is_word(name)) {
            Some("help") => Self::Help,
            Some("session") => Self::Session,
            Some("tools") => Self::Tools,
            Some("new") => Self::New,
            Some("quit" | "exit") => Self::Quit,
            Some(_) => Self::Unknown(end),
            None if end.trim_start().is_empty() => Self::Empty,
            None => Self::Prompt(line.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_prompt_or_a_command() {
        for (line, expected) in [
            ("", Line::Empty),
            (" \t", Line::Empty),
            ("  hello\nworld ", Line::Prompt("hello\nworld")),
            ("/help ", Line::Help),
            ("/session", Line::Session),
            ("/tools", Line::Tools),
            ("/new", Line::New),
            ("/quit", Line::Quit),
            ("/exit", Line::Quit),
            ("/hlep", Line::Unknown("/hlep")),
            (" /hlep", Line::Prompt("/hlep")),
            ("/etc/hosts", Line::Prompt("/etc/hosts")),
            ("/new things", Line::Prompt("/new things")),
            ("/", Line::Prompt("/")),
        ] {
            assert_eq!(Line::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for name in ["session", "tools", "new", "quit"] {
            assert!(HELP.contains(&format!("/{name} ")), "{name}");
        }
    }
}
