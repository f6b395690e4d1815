//! Which argument of a command is a script that an interpreter runs.

use std::path::Path;

/// A program that takes a script as an argument.
struct Interpreter {
    /// Its names, without a version.
    names: &'static [&'static str],
    /// The letters of one-letter options after which the script comes. They may stand together with others, as in `-euc`.
    letters: &'static [char],
    /// The same as words.
    words: &'static [&'static str],
    /// Options whose value is an argument of its own.
    with_value: &'static [&'static str],
}

const INTERPRETERS: [Interpreter; 5] = [
    Interpreter {
        names: &["sh", "bash", "dash", "zsh", "ksh", "ash"],
        letters: &['c'],
        words: &[],
        with_value: &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"],
    },
    Interpreter {
        names: &["python", "pypy"],
        letters: &['c'],
        words: &[],
        with_value: &["-X", "-W", "--check-hash-based-pycs"],
    },
    Interpreter {
        names: &["node", "nodejs", "bun"],
        letters: &['e', 'p'],
        words: &["--eval", "--print"],
        with_value: &["-r", "--require", "--import", "-C", "--conditions"],
    },
    Interpreter { names: &["perl"], letters: &['e', 'E'], words: &[], with_value: &["-I"] },
    Interpreter { names: &["ruby"], letters: &['e'], words: &[], with_value: &["-I", "-r", "-C"] },
];

/// The argument of this command that is a script, if there is one. What comes after it is for the script.
pub(super) fn script<'t>(mut command: impl Iterator<Item = &'t str>) -> Option<&'t str> {
    let mut program = name(command.next()?);
    if program == "env" {
        // Its options, and variables.
        let run = command.find(|text| !text.starts_with('-') && !text.contains('='));
        program = name(run?);
    }
    let interpreter = INTERPRETERS.iter().find(|it| it.names.contains(&program))?;
    let mut takes_script = false;
    while let Some(text) = command.next() {
        match interpreter.read(text) {
            Argument::TakesValue => {
                command.next();
            }
            Argument::TakesScript => takes_script = true,
            Argument::IsScript(script) => return Some(script),
            Argument::Option => {}
            // A file is run instead, and all that follows is for that.
            Argument::Plain => return takes_script.then_some(text),
        }
    }
    None
}

/// A program's name without its folder and version.
fn name(program: &str) -> &str {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.trim_end_matches(|char: char| char.is_ascii_digit() || matches!(char, '.' | '-'))
}

/// What an argument of an interpreter is.
enum Argument<'t> {
    /// An option with a value after it.
    TakesValue,
    /// An option with the script after it, or after further options.
    TakesScript,
    /// An option with the script in it.
    IsScript(&'t str),
    Option,
    Plain,
}

impl Interpreter {
    fn read<'t>(&self, text: &'t str) -> Argument<'t> {
        if self.with_value.contains(&text) {
            return Argument::TakesValue;
        }
        if self.words.contains(&text) {
            return Argument::TakesScript;
        }
        if let Some(word) = text.strip_prefix("--").filter(|word| !word.is_empty()) {
            let given = word.split_once('=');
            let is_script = |name: &str| self.words.iter().any(|word| word[2..] == *name);
            return match given.filter(|(name, _)| is_script(name)) {
                Some((_, script)) => Argument::IsScript(script),
                None => Argument::Option,
            };
        }
        match text.strip_prefix(['-', '+']) {
            Some(letters) if letters.contains(self.letters) => Argument::TakesScript,
            Some(letters) if !letters.is_empty() => Argument::Option,
            _ => Argument::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_found_behind_options() {
        for (command, expected) in [
            ("sh -c S", Some("S")),
            ("sh -c S a b", Some("S")),
            ("/bin/bash -euc S", Some("S")),
            ("sh -e -c S", Some("S")),
            ("sh -ce S", Some("S")),
            ("sh -c -e S", Some("S")),
            ("bash --noprofile --norc -c S", Some("S")),
            ("bash -o pipefail -c S", Some("S")),
            ("sh script.sh -c S", None),
            ("sh -e script.sh", None),
            ("sh", None),
            ("sh -c", None),
            ("/usr/bin/env bash -c S", Some("S")),
            ("env -i A=b bash -c S", Some("S")),
            ("env", None),
            ("python3 -c S", Some("S")),
            ("python3.12 -I -c S", Some("S")),
            ("python3 -X utf8 -c S", Some("S")),
            ("python3 search.py -c S", None),
            ("python3 -m json.tool S", None),
            ("node -p S", Some("S")),
            ("node -pe S", Some("S")),
            ("node --eval S", Some("S")),
            ("node --eval=S", Some("S")),
            ("node -r ./x.js -e S", Some("S")),
            ("node --no-warnings tool.js -e S", None),
            ("perl -w -ne S", Some("S")),
            ("perl -I lib -E S", Some("S")),
            ("ruby -e S", Some("S")),
            ("grep -e S", None),
        ] {
            assert_eq!(script(command.split(' ')), expected, "{command}");
        }
        assert_eq!(script(std::iter::empty()), None);
    }
}
