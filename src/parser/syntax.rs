//! The settings, and the tables made from them.

use std::sync::{Arc, OnceLock};

use super::format_marks::{
    after_code, after_header, after_payload, call_openers, hidden, in_header, label_marks,
    openers_in_prose, tags, without_arguments,
};
use super::json_scan::Rules;
use super::marks::{Mark, Marks};
use super::settings::{Settings, SettingsError};
use crate::call_format::CallFormat;

/// How a model's output is read, ready for [`Parser::of`](super::Parser::of).
///
/// **Make it once and share it.** Its tables take longer to make than a short answer takes to read.
///
/// ```
/// use std::sync::Arc;
/// use tether::parser::{Parser, Settings, Syntax};
///
/// let syntax = Arc::new(Syntax::new(Settings::default())?);
/// let parsers = [(); 2].map(|()| Parser::of(Arc::clone(&syntax)));
/// # Ok::<(), tether::parser::SettingsError>(())
/// ```
#[derive(Debug)]
pub struct Syntax {
    pub(super) settings: Settings,
    /// What a scan of a payload looks for.
    pub(super) rules: Rules,
    /// Whether to report payloads while they arrive. Not in lenient mode: a repair can still change
    /// them.
    pub(super) tells_deltas: bool,
    /// What ends the header of a message, or shows that its end was forgotten.
    pub(super) header: Marks,
    /// What opens a frame, after the header of a message to a tool.
    pub(super) frames: Marks,
    /// What opens a call.
    pub(super) openers: Marks,
    /// What stands in a label, and ends it.
    pub(super) label: Marks,
    /// What means more than text between arguments that stand in tags, and in their values.
    pub(super) tags: Marks,
    /// What closes a call and its frame, in place of arguments.
    pub(super) closers: Marks,
    /// What may end code in a message.
    pub(super) code: Marks,
    /// What may come after a payload: closers, and in a frame the next opener.
    pub(super) after: Marks,
    /// What ends a run of text, and what ends a run of reasoning.
    marks: [Marks; 2],
    /// The same with other formats whose calls begin with the same mark, made when one is needed.
    relatives: OnceLock<Vec<Arc<Self>>>,
    /// The same, except that calls are text, made when it is needed.
    without_calls: OnceLock<Arc<Self>>,
}

impl Syntax {
    /// Makes the tables.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self::of(settings))
    }

    /// The same syntax, except that calls are text. It is made once.
    #[must_use]
    pub fn without_calls(&self) -> &Arc<Self> {
        self.without_calls
            .get_or_init(|| Arc::new(Self::of(Settings { calls: false, ..self.settings.clone() })))
    }

    fn of(settings: Settings) -> Self {
        Self {
            rules: Rules::new(&settings.format, !settings.strict_balancing),
            tells_deltas: settings.argument_deltas && settings.strict_balancing,
            header: Marks::new(in_header(settings.format.row())),
            frames: Marks::new(after_header(&settings.format)),
            openers: Marks::new(call_openers(&settings.format)),
            label: Marks::new(label_marks(settings.format.row().label.as_ref())),
            tags: Marks::new(tags(&settings.format)),
            closers: Marks::new(without_arguments(settings.format.row())),
            code: Marks::new(after_code(settings.format.row())),
            after: Marks::new(after_payload(&settings.format)),
            marks: marks(&settings),
            relatives: OnceLock::new(),
            without_calls: OnceLock::new(),
            settings,
        }
    }

    /// The settings it is made from.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same with other formats whose calls begin with the same mark. None if no tools are known: their
    /// names tell calls from talk there.
    pub(super) fn relatives(&self) -> &[Arc<Self>] {
        self.relatives.get_or_init(|| {
            let row = self.settings.format.row();
            let rows = row.relatives().filter(|_| !self.settings.tools.is_empty());
            let format = |row| Settings { format: CallFormat::of(row), ..self.settings.clone() };
            rows.map(|row| Arc::new(Self::of(format(row)))).collect()
        })
    }

    /// Whether calls inside reasoning count. Where messages have headers, those say what is reasoning.
    pub(super) fn has_calls_in_reasoning(&self) -> bool {
        let settings = &self.settings;
        settings.calls
            && settings.allows_calls_in_reasoning()
            && settings.format.row().header.is_none()
    }

    /// What ends a run of text, or of reasoning.
    #[inline]
    pub(super) fn marks(&self, reasoning: bool) -> &Marks {
        &self.marks[usize::from(reasoning)]
    }
}

/// What ends a run of text, and what ends a run of reasoning.
fn marks(settings: &Settings) -> [Marks; 2] {
    let row = settings.format.row();
    let opens = row.reasoning.iter().map(|[open, _]| (Mark::ReasoningOpen, *open));
    let closes = row.reasoning.iter().map(|[_, close]| (Mark::ReasoningClose, *close));
    let hidden: Vec<_> = hidden(row).collect();
    let has_headers = row.header.is_some();
    // Headers surround text as well.
    let calls = openers_in_prose(&settings.format).filter(|_| settings.calls || has_headers);
    let calls: Vec<_> = calls.collect();
    let opens = opens.filter(|_| settings.reasoning && !has_headers);
    let left_open = closes.clone().filter(|_| settings.reasoning && row.ends_reasoning);
    let left_open = left_open.map(|(_, text)| (Mark::Hidden, text));
    let in_text = calls.iter().copied().chain(opens).chain(hidden.iter().copied()).chain(left_open);
    let may_call = settings.allows_calls_in_reasoning() || has_headers;
    let in_reasoning =
        closes.chain(calls.iter().copied().filter(|_| may_call)).chain(hidden.iter().copied());
    [Marks::new(in_text), Marks::new(in_reasoning)]
}
