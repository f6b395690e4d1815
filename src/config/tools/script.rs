//! Which arguments of a command are scripts that an interpreter runs.

use std::path::Path;

/// A program that takes scripts as arguments.
struct Interpreter {
    /// Its names, without a version.
    names: &'static [&'static str],
    /// One-letter options that take a script; they may be grouped, as in `-euc`.
    script_letters: &'static [char],
    /// Long options that take a script.
    script_words: &'static [&'static str],
    /// One-letter options that take another value.
    value_letters: &'static [char],
    /// Long options that take another value.
    value_words: &'static [&'static str],
    /// Whether an option's value may be in the same argument, as in `-cprint(1)`.
    attaches: bool,
}

const INTERPRETERS: [Interpreter; 5] = [
    Interpreter {
        names: &["sh", "bash", "dash", "zsh", "ksh", "ash"],
        script_letters: &['c'],
        script_words: &[],
        value_letters: &['o', 'O'],
        value_words: &["--rcfile", "--init-file"],
        attaches: false,
    },
    Interpreter {
        names: &["python", "pypy"],
        script_letters: &['c'],
        script_words: &[],
        value_letters: &['X', 'W'],
        value_words: &["--check-hash-based-pycs"],
        attaches: true,
    },
    Interpreter {
        names: &["node", "nodejs", "bun"],
        script_letters: &['e', 'p'],
        script_words: &["--eval", "--print"],
        value_letters: &['r', 'C'],
        value_words: &["--require", "--import", "--conditions", "--title", "--env-file"],
        attaches: false,
    },
    Interpreter {
        names: &["perl"],
        script_letters: &['e', 'E'],
        script_words: &[],
        value_letters: &['I', 'M', 'm'],
        value_words: &[],
        attaches: true,
    },
    Interpreter {
        names: &["ruby"],
        script_letters: &['e'],
        script_words: &[],
        value_letters: &['I', 'r', 'C'],
        value_words: &[],
        attaches: true,
    },
];

/// The arguments of this command, or parts of them, that are scripts. What comes after them is for the scripts.
pub(super) fn scripts<'t>(mut command: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let Some(interpreter) = interpreter(&mut command) else { return Vec::new() };
    let (mut scripts, mut is_awaited) = (Vec::new(), false);
    while let Some(text) = command.next() {
        let Some(option) = interpreter.option(text) else {
            // The script of a shell comes after all its options. Without one, a file is run, and the rest is for it.
            scripts.extend(is_awaited.then_some(text));
            break;
        };
        scripts.extend(option.script);
        is_awaited |= option.awaits_script;
        if option.awaits_value {
            command.next();
        }
        if is_awaited && interpreter.attaches {
            scripts.extend(command.next());
            is_awaited = false;
        }
    }
    scripts
}

/// The interpreter that a command begins with, also after `env`.
fn interpreter<'t>(command: &mut impl Iterator<Item = &'t str>) -> Option<&'static Interpreter> {
    let mut program = command.next()?;
    if name(program) == "env" {
        program = loop {
            match command.next()? {
                "-u" | "-C" | "--unset" | "--chdir" => _ = command.next(),
                text if text.starts_with('-') || text.contains('=') => {}
                text => break text,
            }
        };
    }
    INTERPRETERS.iter().find(|it| it.names.contains(&name(program)))
}

/// A program's name without its folder and version.
fn name(program: &str) -> &str {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.trim_end_matches(|char: char| char.is_ascii_digit() || matches!(char, '.' | '-'))
}

/// An option of an interpreter.
#[derive(Default)]
struct Opt<'t> {
    /// The script in the same argument.
    script: Option<&'t str>,
    /// Whether a script comes after it.
    awaits_script: bool,
    /// Whether another value comes right after it.
    awaits_value: bool,
}

impl Interpreter {
    /// Reads an argument. `None` if it is no option.
    fn option<'t>(&self, text: &'t str) -> Option<Opt<'t>> {
        if text == "--" {
            return Some(Opt::default());
        }
        if text.starts_with("--") {
            let (word, value) = text.split_once('=').map_or((text, None), |(a, b)| (a, Some(b)));
            let takes_script = self.script_words.contains(&word);
            return Some(Opt {
                script: value.filter(|_| takes_script),
                awaits_script: takes_script && value.is_none(),
                awaits_value: self.value_words.contains(&word) && value.is_none(),
            });
        }
        let letters = text.strip_prefix(['-', '+']).filter(|it| !it.is_empty())?;
        let mut option = Opt::default();
        for (at, letter) in letters.char_indices() {
            let after = &letters[at + letter.len_utf8()..];
            let takes_script = self.script_letters.contains(&letter);
            let takes_value = self.value_letters.contains(&letter);
            if self.attaches && !after.is_empty() && (takes_script || takes_value) {
                option.script = Some(after).filter(|_| takes_script);
                break;
            }
            option.awaits_script |= takes_script;
            option.awaits_value |= takes_value;
        }
        Some(option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_found_after_options() {
        for (command, expected) in [
            ("sh -c S", &["S"][..]),
            ("sh -c S a b", &["S"]),
            ("/bin/bash -euc S", &["S"]),
            ("sh -e -c S", &["S"]),
            ("sh -ce S", &["S"]),
            ("sh -c -e S", &["S"]),
            ("bash --noprofile --norc -c S", &["S"]),
            ("bash -o pipefail -c S", &["S"]),
            ("bash -euo pipefail -c S", &["S"]),
            ("bash -ceuo pipefail S", &["S"]),
            ("bash --rcfile f -c S", &["S"]),
            ("sh script.sh -c S", &[]),
            ("sh -e script.sh", &[]),
            ("sh -c -- S", &["S"]),
            ("sh - -c S", &[]),
            ("sh", &[]),
            ("sh -c", &[]),
            ("/usr/bin/env bash -c S", &["S"]),
            ("env -i A=b bash -c S", &["S"]),
            ("env -u A bash -c S", &["S"]),
            ("env", &[]),
            ("env -u", &[]),
            ("python3 -c S", &["S"]),
            ("python3 -cS", &["S"]),
            ("python3.12 -I -c S", &["S"]),
            ("python3 -X utf8 -c S", &["S"]),
            ("python3 -BX utf8 -c S", &["S"]),
            ("python3 search.py -c S", &[]),
            ("python3 -m json.tool S", &[]),
            ("node -p S", &["S"]),
            ("node -pe S", &["S"]),
            ("node --eval S", &["S"]),
            ("node --eval=S", &["S"]),
            ("node -r ./x.js -e S", &["S"]),
            ("node --title x -e S", &["S"]),
            ("node --no-warnings tool.js -e S", &[]),
            ("perl -w -ne S", &["S"]),
            ("perl -neS", &["S"]),
            ("perl -wI lib -E S", &["S"]),
            ("perl -Ilib -e S -e T", &["S", "T"]),
            ("ruby -e S", &["S"]),
            ("grep -e S", &[]),
        ] {
            assert_eq!(scripts(command.split(' ')), expected, "{command}");
        }
        assert!(scripts(std::iter::empty()).is_empty());
    }
}
