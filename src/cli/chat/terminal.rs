//! Standard input and output: lines that are typed, pieces that are shown.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{self, LocalModes, OptionalActions, QueueSelector, Termios};
use rustyline::config::{Behavior, Config};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{ColorMode, Editor};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::paint::Paint;
use super::screen::{Look, Piece};
use crate::cli::CliError;
use crate::config;
use crate::limits::chat::{PROMPT_BYTES_MAX, SIGNAL_WAIT, TYPED_BYTES_MAX};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Ctrl-C: to stop what is going on.
    Interrupt,
    /// To end the program.
    Terminate,
}

/// Requests to stop.
#[derive(Debug)]
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// From now on these signals no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// The next one. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> Stop {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }

    /// Takes those that came while nobody waited for one, and gives the strongest.
    pub(super) async fn pending(&mut self) -> Option<Stop> {
        let mut last = None;
        // The wait lets the runtime look at what has arrived.
        while let Ok(stop) = timeout(SIGNAL_WAIT, self.next()).await {
            if stop == Stop::Terminate {
                return Some(stop);
            }
            last = Some(stop);
        }
        last
    }

    /// What comes of this, unless it is stopped before.
    ///
    /// # Errors
    /// If it is stopped.
    pub(super) async fn unless_stopped<T>(
        &mut self,
        doing: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        tokio::select! {
            done = doing => Ok(done),
            stop = self.next() => Err(stop),
        }
    }
}

/// How the terminal was; `None` without one.
#[derive(Debug)]
pub(super) struct Settings(Option<Termios>);

impl Settings {
    pub(super) fn now() -> Self {
        Self(termios::tcgetattr(io::stdin()).ok())
    }

    /// A line that was typed before it was asked for. The editor would read all such lines at once, and lose all but the
    /// first.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    fn typed_ahead(&self) -> io::Result<Option<Typed>> {
        // Otherwise, the terminal does not collect lines.
        let has_lines =
            self.0.as_ref().is_some_and(|it| it.local_modes.contains(LocalModes::ICANON));
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !has_lines || poll(&mut polled, Some(&at_once))? == 0 {
            return Ok(None);
        }
        let mut bytes = [0; TYPED_BYTES_MAX];
        let read = rustix::io::read(&stdin, &mut bytes)?;
        let typed = match &bytes[..read] {
            // Ctrl-D.
            [] => Typed::End,
            [line @ .., b'\n'] | line => Typed::Line(String::from_utf8_lossy(line).into_owned()),
        };
        Ok(Some(typed))
    }

    /// Gives the terminal back as it was.
    pub(super) fn restore(&self) {
        if let Some(settings) = &self.0 {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, settings);
        }
    }
}

/// What standard output and standard error are.
pub(super) fn look() -> Look {
    let is_note_shown = io::stderr().is_terminal();
    let is_dumb = config::text_variable("TERM").is_none_or(|term| term == "dumb");
    let no_color = config::text_variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    Look {
        is_answer_shown: io::stdout().is_terminal(),
        is_note_shown,
        can_erase: is_note_shown && !is_dumb,
        paint: Paint { is_on: is_note_shown && !is_dumb && !no_color },
        columns: columns(),
    }
}

/// How wide the terminal is now, if standard error is one.
pub(super) fn columns() -> Option<usize> {
    let size = termios::tcgetwinsize(io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether someone can type answers.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal()
}

/// Writes pieces of output.
///
/// # Errors
/// If standard output fails. If standard error does, nobody can be told.
pub(super) fn show(pieces: Vec<Piece>) -> io::Result<()> {
    for piece in pieces {
        match piece {
            Piece::Answer(text) => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            Piece::Note(text) => note(&text),
        }
    }
    Ok(())
}

/// Writes to standard error.
pub(super) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// All of standard input, as one prompt.
///
/// # Errors
/// [`CliError::Usage`] if it is no prompt.
pub(super) fn read_prompt() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let most = PROMPT_BYTES_MAX as u64;
    io::stdin().lock().take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > PROMPT_BYTES_MAX {
        let long = format!("the prompt is longer than {PROMPT_BYTES_MAX} bytes");
        return Err(CliError::Usage(long));
    }
    let prompt = String::from_utf8(bytes)
        .map_err(|_| CliError::Usage("the prompt on standard input is not UTF-8".to_owned()))?;
    if prompt.trim().is_empty() {
        return Err(CliError::Usage("there is no prompt on standard input".to_owned()));
    }
    Ok(prompt.trim_end().to_owned())
}

/// Forgets what was typed before a question was there to be read.
pub(super) fn forget_typed() {
    // Without a terminal, there is nothing to forget.
    let _ = termios::tcflush(io::stdin(), QueueSelector::IFlush);
}

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or a signal.
    End,
}

type LineEditor = Editor<(), MemHistory>;

/// Keeps a line in the history, if it is to be kept.
fn keep(editor: &mut LineEditor, line: &str, is_kept: bool) {
    if is_kept {
        // It only fails for histories in files.
        let _ = editor.add_history_entry(line);
    }
}

/// Reads lines from a terminal, with editing and a history.
pub(super) struct Typing {
    /// `None` while a line is being read.
    editor: Option<LineEditor>,
    /// How the terminal was before.
    settings: Settings,
}

impl Typing {
    /// # Errors
    /// If the terminal cannot be used.
    pub(super) fn new() -> Result<Self, CliError> {
        let config = Config::builder()
            // The terminal itself, because standard output may be a file.
            .behavior(Behavior::PreferTerm)
            .color_mode(ColorMode::Disabled)
            .build();
        let history = MemHistory::with_config(&config);
        let editor = Editor::with_history(config, history);
        let editor = editor.map_err(|error| CliError::Failed(format!("the terminal: {error}")))?;
        Ok(Self { editor: Some(editor), settings: Settings::now() })
    }

    /// The next line. Prompts are kept in the history, answers are not.
    ///
    /// # Errors
    /// If the terminal fails.
    pub(super) async fn line(
        &mut self,
        prompt: &str,
        is_kept: bool,
        interrupts: &mut Interrupts,
    ) -> Result<Typed, CliError> {
        // A line that is being read outlives a signal.
        if interrupts.pending().await.is_some() {
            return Ok(Typed::End);
        }
        // Only a signal takes it away, after which nothing is read.
        let Some(mut editor) = self.editor.take() else { return Ok(Typed::End) };
        if let Some(typed) = self.settings.typed_ahead()? {
            if let Typed::Line(line) = &typed {
                note(&format!("{prompt}{line}\n"));
                keep(&mut editor, line, is_kept);
            }
            self.editor = Some(editor);
            return Ok(typed);
        }
        let prompt = prompt.to_owned();
        let reading = spawn_blocking(move || {
            let line = editor.readline(&prompt);
            if let Ok(line) = &line {
                keep(&mut editor, line, is_kept);
            }
            (editor, line)
        });
        let read = tokio::select! {
            read = reading => read,
            _ = interrupts.next() => {
                self.settings.restore();
                note("\n");
                return Ok(Typed::End);
            }
        };
        let (editor, line) =
            read.map_err(|_| CliError::Failed("the terminal cannot be read".to_owned()))?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(CliError::Failed(format!("the terminal: {error}"))),
        }
    }
}
