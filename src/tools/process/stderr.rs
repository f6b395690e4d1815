//! A program's standard error: always read, so that it never fills up, and only its end is kept.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;

use super::throttled::Throttled;
use crate::limits::process::{STDERR_BYTES_MAX, STDERR_LINE_BYTES_MAX};

/// What takes each line as it is written.
pub(crate) type OnLine = Box<dyn FnMut(&str) + Send>;

/// The end of what a program has written to standard error. Copies share it.
#[derive(Clone, Default)]
pub struct Stderr {
    tail: Arc<Mutex<Vec<u8>>>,
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stderr").field("bytes", &self.tail.lock().len()).finish()
    }
}

impl Stderr {
    /// Reads until the program closes it. Lines go to `on_line`, cut at
    /// [`STDERR_LINE_BYTES_MAX`].
    pub(super) async fn read(self, mut pipe: Throttled<ChildStderr>, mut on_line: Option<OnLine>) {
        let (mut chunk, mut line) = ([0; 4096], Vec::new());
        while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
            self.push(&chunk[..read]);
            if let Some(on_line) = &mut on_line {
                split_lines(&mut line, &chunk[..read], on_line);
            }
        }
        if let (Some(on_line), false) = (&mut on_line, line.is_empty()) {
            on_line(&String::from_utf8_lossy(&line));
        }
    }

    fn push(&self, bytes: &[u8]) {
        let mut tail = self.tail.lock();
        tail.extend_from_slice(bytes);
        let surplus = tail.len().saturating_sub(STDERR_BYTES_MAX);
        tail.drain(..surplus);
    }

    /// See [`last_lines`].
    #[must_use]
    pub fn last_lines(&self, lines_max: usize) -> String {
        last_lines(&String::from_utf8_lossy(&self.tail.lock()), lines_max)
    }

    /// See [`reason`].
    #[must_use]
    pub fn reason(&self) -> String {
        reason(&String::from_utf8_lossy(&self.tail.lock()))
    }
}

/// The line that says best why a program ended, without control characters: the last one that begins like an error,
/// or else the last one that says anything. Node.js, npm and many others write more after it.
fn reason(text: &str) -> String {
    let said = |line: &&str| !line.is_empty() && !is_trailer(line);
    let lines = || text.lines().map(str::trim).filter(said);
    let of_program = || lines().filter(|line| !line.starts_with("npm "));
    let error = of_program().rfind(|line| begins_like_error(line));
    // npm explains at length; what has gone wrong comes first.
    let of_npm = || lines().find(|line| is_npm_error(line));
    let line = error.or_else(of_npm).or_else(|| lines().next_back()).unwrap_or_default();
    // Rust's panics say where on one line and what on the next.
    let is_place = line.contains("panicked at") && line.ends_with(':');
    let what = if is_place { lines().skip_while(|it| *it != line).nth(1) } else { None };
    last_lines(what.unwrap_or(line), 1)
}

/// Whether a line says nothing about why a program ended: a place in its code, a pointer to help, or brackets.
fn is_trailer(line: &str) -> bool {
    const TRAILERS: [&str; 8] = [
        "at ",
        "For further information",
        "note: run with",
        "Node.js v",
        "hint:",
        "Run '",
        "npm error A complete log",
        "npm ERR! A complete log",
    ];
    let has_words = line.chars().any(char::is_alphanumeric);
    !has_words || TRAILERS.iter().any(|trailer| line.starts_with(trailer))
}

fn is_npm_error(line: &str) -> bool {
    let said = line.strip_prefix("npm error ").or_else(|| line.strip_prefix("npm ERR! "));
    said.is_some_and(|said| !said.starts_with("code ") && said.contains(' '))
}

/// Whether one of the first words names an error, as in `ValueError: no token` and `[ERROR] no token`.
fn begins_like_error(line: &str) -> bool {
    const NAMES: [&str; 5] = ["error", "exception", "fatal", "panic", "cannot"];
    let begin: String = line.chars().take(ERROR_NAME_CHARS_MAX).collect();
    let begin = begin.to_ascii_lowercase();
    NAMES.iter().any(|known| begin.contains(known))
}

/// Where the name of an error ends at the latest: a time and a class with its module fit before it.
const ERROR_NAME_CHARS_MAX: usize = 80;

/// The last lines that are not blank, at most this many, without control characters.
#[must_use]
pub fn last_lines(text: &str, lines_max: usize) -> String {
    let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let mut lines: Vec<&str> = lines.take(lines_max).collect();
    lines.reverse();
    let text = lines.join("\n");
    text.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect()
}

/// Adds bytes to a line that is not complete, and passes on each that is.
fn split_lines(line: &mut Vec<u8>, mut bytes: &[u8], on_line: &mut OnLine) {
    while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
        push_cut(line, &bytes[..end]);
        if !line.is_empty() {
            on_line(&String::from_utf8_lossy(line));
        }
        line.clear();
        bytes = &bytes[end + 1..];
    }
    push_cut(line, bytes);
}

fn push_cut(line: &mut Vec<u8>, bytes: &[u8]) {
    let room = STDERR_LINE_BYTES_MAX.saturating_sub(line.len());
    line.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let stderr = Stderr::default();
        stderr.push(b"first\n");
        stderr.push(&vec![b'x'; STDERR_BYTES_MAX]);
        assert_eq!(stderr.tail.lock().len(), STDERR_BYTES_MAX);
        stderr.push(b"\n\nlast but one\n  \x1b[31mlast\r\n\n");
        assert_eq!(stderr.last_lines(2), "last but one\n[31mlast");
    }

    #[track_caller]
    fn check_reason(text: &str, expected: &str) {
        assert_eq!(reason(text), expected);
    }

    /// As real servers end.
    #[test]
    fn the_reason_is_the_line_that_says_it() {
        check_reason(
            "file:///srv/index.js:12\n    throw new Error('no token');\n    ^\n\nError: Cannot run without API_TOKEN\n    \
             at main (file:///srv/index.js:12:9)\n    at Module._compile\n\nNode.js v20.20.2\n",
            "Error: Cannot run without API_TOKEN",
        );
        check_reason(
            "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/typo - Not found\nnpm error 404\n\
             npm error 404  The requested resource could not be found.\nnpm error A complete log of this run can be found in: /l\n",
            "npm error 404 Not Found - GET https://registry.npmjs.org/typo - Not found",
        );
        check_reason(
            "Error: getaddrinfo ENOTFOUND mcp.example\n    at GetAddrInfoReqWrap {\n  errno: -3008,\n  code: 'ENOTFOUND'\n}\n",
            "Error: getaddrinfo ENOTFOUND mcp.example",
        );
        check_reason(
            "Error: a key is required\nInvalid configuration\n",
            "Error: a key is required",
        );
        check_reason(
            "docker: Cannot connect to the daemon.\n\nRun 'docker run --help' for more information\n",
            "docker: Cannot connect to the daemon.",
        );
        check_reason(
            "Traceback (most recent call last):\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'mcp'\n",
            "ModuleNotFoundError: No module named 'mcp'",
        );
        check_reason(
            "pydantic_core.ValidationError: 1 validation error for Settings\nFor further information visit https://errors.pydantic.dev/2\n",
            "pydantic_core.ValidationError: 1 validation error for Settings",
        );
        check_reason(
            "thread 'main' panicked at src/main.rs:5:5:\nthere is no config.toml\nnote: run with `RUST_BACKTRACE=1`\n",
            "there is no config.toml",
        );
        check_reason(
            "Error: no port\nnpm error Lifecycle script `start` failed with error:\nnpm error code 1\n",
            "Error: no port",
        );
        check_reason(
            "2026-11-30T05:00:00 [ERROR] no database at localhost:5432\nbye\n",
            "2026-11-30T05:00:00 [ERROR] no database at localhost:5432",
        );
        check_reason("starting\n\x1b[31mno \u{7}database\r\n\n", "[31mno database");
        check_reason("}\n", "");
        check_reason("", "");
    }

    #[test]
    fn lines_arrive_whole_however_they_are_cut() {
        let text = "one\ntwo\r\nthree\rfour";
        for size in 1..=text.len() {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&seen);
            let mut on_line: OnLine = Box::new(move |line| noted.lock().push(line.to_owned()));
            let mut line = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                split_lines(&mut line, chunk, &mut on_line);
            }
            assert_eq!(*seen.lock(), ["one", "two", "three"]);
            assert_eq!(line, b"four");
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let mut on_line: OnLine = Box::new(move |line| noted.lock().push(line.len()));
        let mut bytes = vec![b'x'; STDERR_LINE_BYTES_MAX + 1];
        bytes.push(b'\n');
        split_lines(&mut Vec::new(), &bytes[1..], &mut on_line);
        split_lines(&mut Vec::new(), &bytes, &mut on_line);
        assert_eq!(*seen.lock(), [STDERR_LINE_BYTES_MAX, STDERR_LINE_BYTES_MAX]);
    }
}
