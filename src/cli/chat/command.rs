//! What a line at the prompt means: a prompt, or a command.

/// A line at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input<'l> {
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

impl<'l> Input<'l> {
    pub(super) fn parse(line: &'l str) -> Self {
        let end = line.trim_end();
        match command(end) {
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

/// The word of what looks like a command: a path, or a question about one, does not.
pub(super) fn command(line: &str) -> Option<&str> {
    let is_word = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
    line.strip_prefix('/').filter(|name| is_word(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_prompt_or_a_command() {
        for (line, expected) in [
            ("", Input::Empty),
            (" \t", Input::Empty),
            ("  hello\nworld ", Input::Prompt("hello\nworld")),
            ("/help ", Input::Help),
            ("/session", Input::Session),
            ("/tools", Input::Tools),
            ("/new", Input::New),
            ("/quit", Input::Quit),
            ("/exit", Input::Quit),
            ("/hlep", Input::Unknown("/hlep")),
            (" /hlep", Input::Prompt("/hlep")),
            ("/etc/hosts", Input::Prompt("/etc/hosts")),
            ("/new things", Input::Prompt("/new things")),
            ("/", Input::Prompt("/")),
        ] {
            assert_eq!(Input::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for name in ["session", "tools", "new", "quit"] {
            assert!(HELP.contains(&format!("/{name} ")), "{name}");
        }
    }
}
