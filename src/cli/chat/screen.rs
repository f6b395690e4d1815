//! What a turn looks like: events in, pieces of output out.
//!
//! ```text
//!   Event -> event() ─┐                    ┌─> Answer: standard output, the model's words alone
//!   time  -> tick() ──┴─> state ─> take() ─┴─> Note: standard error, everything else
//! ```
//! If both are terminals, they are the same one, so notes begin on a line of their own. The last
//! line may be a *ticker*, which says what is going on: it is erased before anything else is
//! written. Nothing moves the cursor up, so that the output also reads well when it is scrolled.

use std::fmt::Write as _;

use super::calls::Calls;
use super::clean;
use super::event::Event;
use super::paint::{Paint, fit};
use crate::limits::chat::{COLUMNS, LINE_CHARS_MAX};

/// What the output goes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Standard output is a terminal.
    pub(super) is_answer_shown: bool,
    /// Standard error is a terminal.
    pub(super) is_note_shown: bool,
    /// Standard error is a terminal that can erase a line.
    pub(super) can_erase: bool,
    /// The colours of standard error.
    pub(super) paint: Paint,
    /// How wide that terminal is, if it is one.
    pub(super) columns: Option<usize>,
}

/// A piece of output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// For standard output.
    Answer(String),
    /// For standard error.
    Note(String),
}

/// The output of one turn.
#[derive(Debug)]
pub(super) struct Screen {
    look: Look,
    pieces: Vec<Piece>,
    now_ms: u64,
    model: String,
    /// When the model was asked, while it has not said anything.
    waiting_since_ms: Option<u64>,
    /// The model is writing a call.
    is_call_coming: bool,
    calls: Calls,
    ticker: String,
    /// The last character of the answer; `None` before the first.
    answer_end: Option<char>,
    flow: Flow,
    /// What the model says next is another message, or follows a call.
    is_new_message: bool,
    /// The cursor is not at the start of a line, because of words or reasoning.
    is_mid_line: bool,
}

/// What was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Notes,
    Reasoning,
    Words,
}

impl Look {
    /// Whether words and notes appear on the same screen.
    const fn is_shared(self) -> bool {
        self.is_answer_shown && self.is_note_shown
    }
}

const ERASE: &str = "\r\x1b[K";

impl Screen {
    /// The screen of a turn that begins now.
    pub(super) fn new(look: Look) -> Self {
        Self {
            look,
            pieces: Vec::new(),
            now_ms: 0,
            model: String::new(),
            waiting_since_ms: Some(0),
            is_call_coming: false,
            calls: Calls::default(),
            ticker: String::new(),
            answer_end: None,
            flow: Flow::Notes,
            is_new_message: false,
            is_mid_line: false,
        }
    }

    /// Shows an event.
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Started(started) => self.model = clean::line(&started.model, LINE_CHARS_MAX),
            Event::Text(it) => {
                self.is_new_message |= it.r#loop.is_some();
                self.text(&it.text);
            }
            Event::Reasoning(it) => self.reasoning(&it.text),
            Event::Marker => {
                self.is_call_coming = true;
                self.is_new_message = true;
            }
            // The model's own words have been shown.
            Event::Acknowledgement(it) if it.source == "model" => {}
            Event::Acknowledgement(it) => self.note(&self.look.paint.dim(&one_line(&it.text))),
            Event::ToolStarted(it) => {
                self.is_call_coming = false;
                let line = self.calls.start(it, self.now_ms);
                self.call(&line);
            }
            Event::Progress(it) => {
                // Without a ticker, progress gets lines of its own.
                if let Some(line) = self.calls.report(it).filter(|_| !self.look.can_erase) {
                    self.call(&line);
                }
            }
            Event::ToolCompleted(it) => {
                for line in self.calls.end(it) {
                    self.call(&line);
                }
                self.waiting_since_ms = Some(self.now_ms);
            }
            Event::Feedback(it) => {
                self.waiting_again();
                // The failure has just been shown.
                if it.reason == "tool_failed" {
                    return;
                }
                let told = format!("{}: {}", it.reason, it.message);
                let line = format!("  ! the model was corrected: {}", one_line(&told));
                self.note(&self.look.paint.yellow(&self.fit(&line)));
            }
            Event::Question(question) => {
                let shown = question.shown(self.look.paint);
                self.block(&shown);
            }
            Event::Status(it) => self.note(&self.look.paint.dim(&one_line(&it.message))),
            Event::LoopLimit => {
                let limit = "the turn has used up its rounds with tools; a last answer follows";
                self.note(&self.look.paint.dim(limit));
            }
            Event::Completed(it) => {
                match &*it.finish_reason {
                    "length" => self.note(&self.look.paint.yellow(
                        "the answer ends here because the model has reached its token limit",
                    )),
                    "content_filter" => self.note(&self.look.paint.yellow(
                        "the answer ends here because a filter of the model server cut it off",
                    )),
                    "cancelled" => self.note(&self.look.paint.yellow("cancelled")),
                    _ => {}
                }
            }
            Event::Failed(it) => {
                let again = if it.retryable { " (trying again may help)" } else { "" };
                self.error(&format!("{}{again}", one_line(&it.message)));
            }
        }
        if event.is_last() {
            self.finish();
        }
    }

    /// Writes a line that is not part of the answer.
    pub(super) fn note(&mut self, line: &str) {
        self.block(&format!("{line}\n"));
    }

    /// Writes an error, as other commands do.
    pub(super) fn error(&mut self, message: &str) {
        self.note(&format!("{}: {message}", self.look.paint.red("error")));
    }

    /// The time since the turn began.
    pub(super) fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The terminal has this width now.
    pub(super) const fn resize(&mut self, columns: Option<usize>) {
        self.look.columns = columns;
    }

    /// What is to be written now. Call it once after several events.
    pub(super) fn take(&mut self) -> Vec<Piece> {
        let ticker = self.wanted_ticker();
        if ticker != self.ticker {
            self.erase();
            if !ticker.is_empty() {
                let shown = self.look.paint.dim(&ticker);
                self.push_note(&shown);
                self.ticker = ticker;
            }
        }
        std::mem::take(&mut self.pieces)
    }

    /// Ends the output: nothing stays half written.
    pub(super) fn finish(&mut self) {
        self.waiting_since_ms = None;
        self.is_call_coming = false;
        self.calls = Calls::default();
        self.erase();
        self.end_reasoning();
        if self.answer_end.is_some_and(|end| end != '\n') {
            self.answer_end = Some('\n');
            self.pieces.push(Piece::Answer("\n".to_owned()));
        }
        self.is_mid_line = false;
    }

    fn text(&mut self, text: &str) {
        self.waiting_since_ms = None;
        self.is_call_coming = false;
        let shown = if self.look.is_answer_shown { clean::text(text) } else { text.into() };
        let mut shown = &*shown;
        let is_paragraph = self.flow != Flow::Words;
        if is_paragraph && self.look.is_shared() {
            shown = shown.trim_start_matches('\n');
        }
        if shown.is_empty() {
            return;
        }
        self.erase();
        self.end_reasoning();
        // The gateway joins messages without anything in between.
        let is_new_message = std::mem::take(&mut self.is_new_message);
        let is_apart = shown.starts_with('\n') || self.answer_end.is_none_or(|end| end == '\n');
        if is_new_message && !self.look.is_shared() && !is_apart {
            self.push_answer("\n");
        }
        self.flow = Flow::Words;
        self.push_answer(shown);
        self.answer_end = shown.chars().next_back();
        self.is_mid_line = self.look.is_shared() && self.answer_end != Some('\n');
    }

    fn reasoning(&mut self, text: &str) {
        self.waiting_since_ms = None;
        let shown = clean::text(text);
        let mut shown = &*shown;
        if self.flow != Flow::Reasoning {
            shown = shown.trim_start_matches('\n');
            if shown.is_empty() {
                return;
            }
            self.break_line();
            self.flow = Flow::Reasoning;
            if !self.look.paint.is_on {
                self.push_note("(reasoning) ");
            }
        }
        self.erase();
        let painted = self.look.paint.dim(shown);
        self.push_note(&painted);
        self.is_mid_line = !shown.ends_with('\n');
    }

    fn end_reasoning(&mut self) {
        if self.flow == Flow::Reasoning {
            self.break_line();
            self.flow = Flow::Notes;
        }
    }

    /// A line about a call.
    fn call(&mut self, line: &super::calls::Line) {
        let width = self.width();
        let line = line.painted(self.look.paint, width);
        self.block(&line);
    }

    /// Writes whole lines that are not part of the answer.
    fn block(&mut self, lines: &str) {
        self.break_line();
        self.push_note(lines);
        self.flow = Flow::Notes;
    }

    /// Goes to the start of a line, if what is shown does not end with one.
    fn break_line(&mut self) {
        self.erase();
        if std::mem::take(&mut self.is_mid_line) {
            self.push_note("\n");
        }
    }

    fn waiting_again(&mut self) {
        self.is_call_coming = false;
        self.waiting_since_ms = Some(self.now_ms);
    }

    fn wanted_ticker(&self) -> String {
        if !self.look.can_erase || self.is_mid_line {
            return String::new();
        }
        let mut ticker = String::new();
        let since = if let Some((what, since)) = self.calls.running() {
            let _ = write!(ticker, "  … {what}");
            since
        } else if self.is_call_coming {
            ticker.push_str("  … the model writes a call");
            self.now_ms
        } else if let Some(since) = self.waiting_since_ms {
            let model = if self.model.is_empty() { "the gateway" } else { &self.model };
            let _ = write!(ticker, "  … waiting for {model}");
            since
        } else {
            return ticker;
        };
        let seconds = self.now_ms.saturating_sub(since) / 1000;
        if seconds > 1 {
            let _ = write!(ticker, ", {seconds} s");
        }
        self.fit(&ticker)
    }

    /// A line that does not wrap.
    fn fit(&self, line: &str) -> String {
        fit(line, self.width())
    }

    fn width(&self) -> usize {
        match self.look.columns {
            Some(columns) => columns.max(2) - 1,
            None if self.look.is_note_shown => COLUMNS - 1,
            None => LINE_CHARS_MAX,
        }
    }

    fn erase(&mut self) {
        if !std::mem::take(&mut self.ticker).is_empty() {
            self.push_note(ERASE);
        }
    }

    fn push_answer(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Answer(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Answer(text.to_owned())),
        }
    }

    fn push_note(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Note(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Note(text.to_owned())),
        }
    }
}

fn one_line(text: &str) -> String {
    clean::line(text, LINE_CHARS_MAX)
}
