//! What the parser's states share: the syntax, the position in the stream, and the output of
//! text.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::call::{self, Content, Fault, Keys};
use super::segment::{self, Place, Segment, Span};
use super::settings::Settings;
use super::syntax::Syntax;
use super::text::{Chunk, Unchecked, Utf8};
use super::transition::{After, Flow, Next, Opened};
use super::{literal, nested};
use crate::call_format::{Body, Row};

/// A model's output, as far as it has been read.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "two are about reasoning, and two about the position"
)]
pub(super) struct Stream {
    /// That of the parser, or of a relative whose calls the model writes.
    pub syntax: Arc<Syntax>,
    home: Arc<Syntax>,
    /// The last call's beginning that did not fit its format.
    misfit: Option<Misfit>,
    /// Whether prose is currently reasoning.
    pub reasoning: bool,
    /// Whether the server sends that reasoning in a field of its own. No tag and no call ends it there. Implies
    /// `reasoning`.
    pub is_apart: bool,
    /// Whether an answer has begun, in formats whose calls or headers are looked for at its start.
    pub begun: bool,
    /// The last byte of text. LF at the start and after tags and calls, as if a line began there.
    pub last: u8,
    /// What has been read of a call before its gap: openers and the label.
    pub head: Vec<u8>,
    /// How many bytes of it are a message's header, which is never shown.
    pub head_hidden: usize,
    /// The tool's name in the label.
    pub label: String,
    /// The label, gap, payload or tail so far. It is kept for the next call, to save an allocation.
    pub buffer: Vec<u8>,
    /// Where the chunk begins, in bytes from the stream's start.
    pub offset: u64,
    /// How many calls have started.
    pub calls: u32,
    /// Whether the stream ends too early.
    pub is_cut_off: bool,
    /// An unfinished character of text.
    utf8: Utf8,
}

/// The beginning of a call that does not fit its format. It is read again as relatives have it.
#[derive(Debug)]
struct Misfit {
    /// Where it begins.
    at: u64,
    /// The syntax that it did not fit at first.
    first: Arc<Syntax>,
    /// How many others it has been read with.
    tried: usize,
}

impl Stream {
    pub(super) fn new(syntax: Arc<Syntax>) -> Self {
        let mut stream = Self {
            home: Arc::clone(&syntax),
            misfit: None,
            syntax,
            reasoning: false,
            is_apart: false,
            begun: true,
            last: b'\n',
            head: Vec::new(),
            head_hidden: 0,
            label: String::new(),
            buffer: Vec::new(),
            offset: 0,
            calls: 0,
            is_cut_off: false,
            utf8: Utf8::default(),
        };
        stream.begin();
        stream
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.syntax.settings
    }

    /// Starts a new stream.
    pub(super) fn begin(&mut self) {
        self.syntax = Arc::clone(&self.home);
        self.misfit = None;
        let settings = self.settings();
        let (is_reasoning, calls) = (settings.reasoning, settings.calls);
        self.reasoning = is_reasoning && settings.starts_in_reasoning;
        self.is_apart = false;
        self.begun = match &self.row().header {
            Some(_) => self.reasoning,
            None => self.row().bare.is_none() || !calls,
        };
        self.last = b'\n';
        self.offset = 0;
        self.calls = 0;
        self.is_cut_off = false;
        self.buffer.clear();
    }

    /// Starts a new stream, and forgets what the last one left unfinished.
    pub(super) fn abandon(&mut self) {
        self.utf8 = Utf8::default();
        self.begin();
    }

    /// Whether text may go straight through: no character is unfinished, spans are off, and no call
    /// without an opener can come.
    pub(super) fn is_calm(&self) -> bool {
        self.utf8.is_empty() && !self.settings().spans && !self.may_start()
    }

    /// Whether a call without an opener may come now.
    pub(super) const fn may_start(&self) -> bool {
        !self.begun && !self.reasoning
    }

    /// Whether text has just opened a code span or a quotation. A reasoning tag that follows is written about,
    /// not meant: it would hide the rest of the answer.
    pub(super) const fn is_quoted(&self) -> bool {
        matches!(self.last, b'`' | b'"' | b'\'')
    }

    /// The position in the stream of a byte of the chunk.
    pub(super) fn position(&self, at: usize) -> u64 {
        self.offset + at as u64
    }

    /// The format's row.
    pub(super) fn row(&self) -> &'static Row {
        self.settings().format.row()
    }

    /// Whether the name in the label shows that a call was meant: it stands in a frame, or an offered tool
    /// has it.
    pub(super) fn is_meant(&self, opened: Opened) -> bool {
        opened.is_framed || self.settings().tools.may_have(&self.label)
    }

    /// Whether a call that begins here needs no end: it is a message to a tool, which whatever follows ends.
    pub(super) fn is_message(&self, opened: Opened) -> bool {
        let row = self.row();
        row.header.is_some() && row.frame.is_none() && self.is_meant(opened)
    }

    /// The argument that is the body of a message, if its tool is addressed in code.
    pub(super) fn code_argument(&self, opened: Opened) -> Option<&str> {
        let header = self.row().header.as_ref().filter(|_| self.is_message(opened))?;
        let is_code = header.code == Some(&*self.label);
        is_code.then(|| self.settings().tools.only_text(&self.label))?
    }

    /// Keeps the opener of a call or a frame.
    pub(super) fn begin_head(&mut self, opener: &[u8]) {
        self.head_hidden = 0;
        self.head.clear();
        self.head.extend_from_slice(opener);
    }

    /// Reads a payload as the format says.
    pub(super) fn read_call<'p>(&self, payload: &'p str) -> Result<Content<'p>, Fault> {
        match &self.row().body {
            Body::Json(keys) => call::read(payload, Keys::Of(keys)),
            Body::Keyed => call::read(payload, Keys::Name),
            Body::Pythonic(keys) => literal::pythonic(payload, keys),
            Body::PythonicLines(keys) => literal::pythonic_lines(payload, keys),
            Body::Loose(delimiter) => literal::loose(&self.label, payload, delimiter),
            Body::Nested(elements) => {
                nested::read(&self.label, payload, elements, &self.settings().tools)
            }
            Body::Arguments | Body::Tagged(_) => call::read_arguments_of(&self.label, payload),
        }
    }

    /// Whether the call that begins here is read in another format than the one before it.
    pub(super) fn is_guess(&self, opened: Opened) -> bool {
        let misfit = self.misfit.as_ref().filter(|misfit| misfit.at == opened.at);
        misfit.is_some_and(|misfit| !Arc::ptr_eq(&misfit.first, &self.syntax))
    }

    /// Changes to the next format that may fit the beginning of a call here, which the current one does not.
    /// False if there is none; then it is the one that came first.
    fn try_relative(&mut self, opened: Opened) -> bool {
        let relatives = Arc::clone(&self.home);
        let relatives = relatives.relatives();
        let mark = self.home.settings().format.row().first_mark();
        let is_shared = self.head.starts_with(mark.as_bytes());
        if relatives.is_empty() || !is_shared || self.reasoning {
            return false;
        }
        let misfit = match &mut self.misfit {
            Some(misfit) if misfit.at == opened.at => misfit,
            other => {
                other.insert(Misfit { at: opened.at, first: Arc::clone(&self.syntax), tried: 0 })
            }
        };
        let is_other = |it: &&Arc<Syntax>| !Arc::ptr_eq(it, &misfit.first);
        let mut others = relatives.iter().chain([&self.home]).filter(is_other);
        let next = others.nth(misfit.tried);
        let is_over = misfit.tried > relatives.len();
        self.syntax = Arc::clone(next.unwrap_or(&misfit.first));
        misfit.tried += 1;
        !is_over
    }

    /// What follows counts as standing where this began, because its head is not shown.
    pub(super) const fn stand_before(&mut self, opened: Opened) {
        self.last = if opened.at_line_start { b'\n' } else { b' ' };
    }

    /// Reports that what looked like the beginning of a call is none, unless it is one in a related format. Its
    /// head, without a message's header, and the buffer are text after all. The buffer's last bytes, which end
    /// before `at`, are read again, because they may begin a mark.
    pub(super) fn refuse_opening(
        &mut self,
        opened: Opened,
        message: &str,
        last: usize,
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        if self.try_relative(opened) {
            self.stand_before(opened);
            return Flow::again(Next::prose(), [&*self.head, &self.buffer].concat(), at);
        }
        let again = self.buffer.split_off(self.buffer.len() - last);
        let bytes = [&*self.head, &self.buffer].concat();
        sink(segment::missing_payload(opened.at, opened.at_line_start, message, &bytes));
        let start = opened.at + self.head_hidden as u64;
        self.span(Place::Tag, opened.at..start, sink);
        self.say_before(&bytes[self.head_hidden..], start, sink);
        Flow::again(Next::prose(), again, at)
    }

    /// Ends a payload that was refused, perhaps in a code fence, and returns the next state.
    pub(super) fn end_refused(
        &mut self,
        opened: Opened,
        place: Place,
        end: u64,
        fence: bool,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        if fence || self.row().closes() {
            return Next::Tail { opened, place, after: After::Payload { fence } };
        }
        self.end_call(opened, place, end, sink);
        self.after_call()
    }

    /// What comes after a call and what belongs to it: text or, in a format without openers, perhaps
    /// another call.
    pub(super) fn after_call(&self) -> Next {
        if self.row().is_bare() { Next::Start } else { self.after_message() }
    }

    /// What comes after a message: perhaps a header without its opener.
    pub(super) fn after_message(&self) -> Next {
        let may_start = self.row().header.is_some() && self.row().has_special;
        if may_start { Next::Start } else { Next::prose() }
    }

    /// Reports the start of a call, and numbers it. The answer has begun with it and, in some formats,
    /// reasoning is over.
    pub(super) fn start_call(&mut self, offset: u64, sink: &mut impl FnMut(Segment<'_>)) -> u32 {
        self.begun = true;
        self.reasoning &= !self.row().ends_reasoning || self.is_apart;
        let index = self.calls;
        self.calls += 1;
        sink(Segment::CallStarted { index, offset });
        index
    }

    /// Ends a call, or what was meant as one, at `end`.
    pub(super) fn end_call(
        &mut self,
        opened: Opened,
        place: Place,
        end: u64,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        self.last = b'\n';
        self.span(place, opened.at..end, sink);
    }

    /// Appends to the buffer. Its capacity stays within `most` bytes.
    #[inline]
    pub(super) fn keep(&mut self, bytes: &[u8], most: usize) {
        if bytes.len() > self.buffer.capacity() - self.buffer.len() {
            self.grow(bytes.len(), most);
        }
        self.buffer.extend_from_slice(bytes);
    }

    #[cold]
    fn grow(&mut self, more: usize, most: usize) {
        const FIRST: usize = 256;
        let doubled = (2 * self.buffer.capacity()).min(most);
        let room = (self.buffer.len() + more).max(doubled).max(FIRST.min(most));
        self.buffer.reserve_exact(room - self.buffer.len());
    }

    /// Passes on a range of the chunk as text or reasoning.
    pub(super) fn say<C: Chunk>(
        &mut self,
        chunk: C,
        range: Range<usize>,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let Some(&last) = chunk.bytes()[range.clone()].last() else { return };
        self.last = last;
        self.begun |= !self.reasoning && !chunk.bytes()[range.clone()].trim_ascii().is_empty();
        let span = self.position(range.start)..self.position(range.end);
        let reasoning = self.reasoning;
        chunk.say(range, &mut self.utf8, &mut |text| sink(prose(reasoning, text)));
        self.span(if reasoning { Place::Reasoning } else { Place::Text }, span, sink);
    }

    /// Passes on bytes of earlier chunks, which begin at `start`.
    pub(super) fn say_before(
        &mut self,
        bytes: &[u8],
        start: u64,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let offset = mem::replace(&mut self.offset, start);
        self.say(Unchecked(bytes), 0..bytes.len(), sink);
        self.offset = offset;
    }

    /// Gives up on a character that will never become whole.
    pub(super) fn flush(&mut self, sink: &mut impl FnMut(Segment<'_>)) {
        let reasoning = self.reasoning;
        self.utf8.flush(&mut |text| sink(prose(reasoning, text)));
    }

    /// Reports where bytes went, if spans are on.
    pub(super) fn span(&self, place: Place, range: Range<u64>, sink: &mut impl FnMut(Segment<'_>)) {
        if self.settings().spans && !range.is_empty() {
            sink(Segment::Span(Span { place, range }));
        }
    }
}

/// A piece of prose.
#[inline]
pub(super) fn prose(reasoning: bool, text: &str) -> Segment<'_> {
    if reasoning { Segment::Reasoning(text) } else { Segment::Text(text) }
}
