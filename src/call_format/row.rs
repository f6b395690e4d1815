//! A format as data.

use std::fmt::Write as _;

use super::elements::Elements;
use super::header::Header;
use super::tags::Tags;

/// How the calls of a format are read and written.
#[expect(clippy::struct_excessive_bools, reason = "a column each")]
#[derive(Debug)]
pub struct Row {
    /// Its name in the configuration and on the command line.
    pub name: &'static str,
    /// What begins each message of an answer, in formats that address them.
    pub header: Option<Header>,
    /// What is written around the calls of a message, if anything is.
    pub frame: Option<Frame>,
    /// What opens a call. The first one is written; all are read.
    pub openers: &'static [&'static str],
    /// How a call without an opener begins. If the first opener is empty, calls are written like this;
    /// otherwise models that forget the opener are understood.
    pub bare: Option<Bare>,
    /// Whether the first opener can be replaced, because models learn this format from the prompt
    /// alone.
    pub is_taught: bool,
    /// The tool's name between the opener and the body, if the format puts it there.
    pub label: Option<Label>,
    /// What is written between the opener, or the label, and the body. Any white space is accepted.
    pub gap: &'static str,
    /// Whether a code fence around the body is part of the format.
    pub fence: Fence,
    /// What a call is made of.
    pub body: Body,
    /// Whether the calls of a message are written as one array, or as lines between the same marks.
    pub is_array: bool,
    /// What closes a call, if not the end of its body.
    pub closer: Option<Closer>,
    /// What is written between two calls. In formats with headers, what begins the next message.
    pub between: &'static str,
    /// What is written around a result.
    pub result: [&'static str; 2],
    /// How the format is taught, with `{opener}` for the opener and `{example}` for a call.
    pub lesson: &'static str,
    /// Whether its marks are special tokens, which some servers leave out of the text.
    pub has_special: bool,
    /// What is never shown: it surrounds the model's text, or ends it.
    pub hidden: &'static [&'static str],
    /// What opens reasoning, and what closes it.
    pub reasoning: &'static [[&'static str; 2]],
    /// Whether a call ends reasoning that was not closed. In other formats, the parser's settings decide
    /// whether a call in there counts.
    pub ends_reasoning: bool,
}

/// No two have the same name. Comparing all of it, for each turn several times, would cost much more.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Row {}

/// How a call without an opener begins. It counts only at the start of an answer, and only if it names
/// an offered tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Bare {
    /// A word that comes first; perhaps none.
    pub word: &'static str,
    /// The first bracket of the body.
    pub bracket: u8,
}

/// Whether a code fence around the body is part of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// It is not.
    None,
    /// It is read, not written.
    Read,
    /// It is written, and may be missing.
    Usual,
    /// Without it, there is no call: the opener is an ordinary word.
    Needed,
}

/// What a call is made of.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// One JSON object with a name and arguments, or an array of such objects.
    Json(JsonKeys),
    /// One JSON object whose only key is the name, or an array of such objects.
    Keyed,
    /// The arguments alone, a JSON object: the name stands before it.
    Arguments,
    /// The arguments one by one, in tags.
    Tagged(Tags),
    /// A list of calls as Python writes them, with keyword arguments. Some models write JSON there,
    /// with these keys.
    Pythonic(JsonKeys),
    /// The same calls, one on each line and without brackets around them. They end at the closer.
    PythonicLines(JsonKeys),
    /// The arguments alone, an object with bare keys, whose texts stand between these.
    Loose(&'static str),
    /// The arguments as elements, in which objects and arrays are elements, too. They end at the closer.
    Nested(Elements),
}

/// What is written around the calls of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// What opens it. The first one is written; all are read.
    pub open: &'static [&'static str],
    /// What is written between its marks and the calls. Any white space is accepted.
    pub gap: &'static str,
    /// What closes it.
    pub close: &'static [&'static str],
    /// Whether all calls of a message are written in one frame. Otherwise each has its own; several
    /// in one are read all the same.
    pub is_shared: bool,
}

/// The tool's name between the opener and the body.
///
/// ```text
///   <|tool_call_begin|> functions. now :0 <|tool_call_argument_begin|> {}
///                       '-prefix-'     id '---------- end ----------'
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Label {
    /// What is written before the name. It may be missing.
    pub prefix: &'static str,
    /// The call's id, if the format has one. It is read and dropped.
    pub id: Option<LabelId>,
    /// What ends the label. The first one is written; all are read. There may be none if something
    /// stops it.
    pub ends: &'static [&'static str],
    /// What may come directly after the label, and is no part of it.
    pub stops: &'static [&'static str],
}

/// Where a call's id is written, and how.
#[derive(Debug, PartialEq, Eq)]
pub enum LabelId {
    /// After this text, in as many characters.
    After(&'static str, usize),
    /// After the last colon, the number of the call in its message. In a chat template, the whole label is the
    /// call's id.
    Number,
    /// After this text, the number of the call in its message, from 1.
    NumberAfter(&'static str),
    /// Before the name and this text, the number of the call in its message.
    NumberBefore(&'static str),
}

/// The keys of a call that is a JSON object. The standard ones come first: they are written, and
/// they win over others in the same object.
#[derive(Debug, PartialEq, Eq)]
pub struct JsonKeys {
    /// Of the tool's name.
    pub name: &'static [&'static str],
    /// Of the arguments.
    pub arguments: &'static [&'static str],
}

/// What closes a call.
#[derive(Debug, PartialEq, Eq)]
pub struct Closer {
    /// What is written between the body and the closer. Any white space is accepted.
    pub gap: &'static str,
    /// The closer itself.
    pub text: &'static str,
}

impl Row {
    /// A row whose calls are their arguments.
    pub(super) const PLAIN: Self = Self {
        name: "",
        header: None,
        frame: None,
        openers: &[],
        bare: None,
        is_taught: false,
        label: None,
        gap: "",
        fence: Fence::None,
        body: Body::Arguments,
        is_array: false,
        closer: None,
        between: "",
        result: ["", ""],
        lesson: "Write each function call in exactly this form:\n{example}",
        has_special: false,
        hidden: &[],
        reasoning: &[["<think>", "</think>"]],
        ends_reasoning: false,
    };

    /// The tags around reasoning.
    pub fn reasoning_tags<'t>(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        self.reasoning.iter().flatten().copied()
    }

    /// What closes the reasoning in which a prompt ends, if it ends in any. Templates write the tag
    /// that opens it, or both tags to have none.
    #[must_use]
    pub fn reasoning_open_in(&self, prompt: &str) -> Option<&'static str> {
        let prompt = prompt.trim_end();
        let open = self.reasoning.iter().find(|[open, _]| prompt.ends_with(open.trim_end()));
        open.map(|[_, close]| *close)
    }

    /// Whether calls are written without an opener.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.openers[0].is_empty()
    }

    /// What a call is written after: the opener of its frame, or its own.
    pub(crate) const fn first_mark(&self) -> &'static str {
        match &self.frame {
            Some(frame) => frame.open[0],
            None => self.openers[0],
        }
    }

    /// Whether something closes its calls, alone or with their frame. Models write that twice, or forget
    /// it.
    pub(crate) const fn closes(&self) -> bool {
        self.closer.is_some() || self.frame.is_some()
    }

    /// The keys of its calls, if they are objects with a name.
    #[must_use]
    pub const fn keys(&self) -> Option<&JsonKeys> {
        match &self.body {
            Body::Json(keys) => Some(keys),
            Body::Keyed
            | Body::Arguments
            | Body::Tagged(_)
            | Body::Pythonic(_)
            | Body::PythonicLines(_)
            | Body::Loose(_)
            | Body::Nested(_) => None,
        }
    }

    /// The label, if chat templates write a call's id in its place.
    #[must_use]
    pub fn call_ids(&self) -> Option<&Label> {
        self.label.as_ref().filter(|label| label.id == Some(LabelId::Number))
    }

    /// Whether a call is an object with the tool's name in it, so that several can stand in a row.
    #[must_use]
    pub const fn has_names_in_objects(&self) -> bool {
        matches!(self.body, Body::Json(_) | Body::Keyed)
    }

    /// Whether a parser has to know the offered tools.
    #[must_use]
    pub const fn needs_tools(&self) -> bool {
        self.label.is_some() || self.bare.is_some()
    }
}

impl Body {
    /// Whether it ends where the closer stands, and not with a bracket.
    #[must_use]
    pub const fn ends_at_closer(&self) -> bool {
        matches!(self, Self::PythonicLines(_) | Self::Nested(_))
    }
}

impl Fence {
    /// Whether it is read as part of the format.
    #[must_use]
    pub const fn is_read(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether it is written.
    #[must_use]
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Usual | Self::Needed)
    }
}

impl Label {
    /// The name alone.
    pub(super) const PLAIN: Self = Self { prefix: "", id: None, ends: &[], stops: &[] };

    /// The tool's name in a label. `None` if there is none.
    #[must_use]
    pub fn name<'l>(&self, label: &'l str) -> Option<&'l str> {
        let label = label.trim();
        let label = label.strip_prefix(self.prefix).unwrap_or(label);
        let name = match &self.id {
            None => label,
            Some(LabelId::After(mark, _) | LabelId::NumberAfter(mark)) => {
                label.split_once(mark).map_or(label, |(it, _)| it)
            }
            Some(LabelId::NumberBefore(mark)) => label.split_once(mark)?.1,
            Some(LabelId::Number) => match label.rsplit_once(':') {
                Some((name, number)) if number.bytes().all(|it| it.is_ascii_digit()) => name,
                _ => label,
            },
        };
        (!name.is_empty()).then_some(name)
    }

    /// What ends a written label.
    #[must_use]
    pub fn end(&self) -> &'static str {
        self.ends.first().copied().unwrap_or_default()
    }

    /// Adds a label. `number` is that of the call in its message.
    pub(super) fn push(&self, text: &mut String, name: &str, number: usize) {
        self.push_without_end(text, name, number);
        text.push_str(self.end());
    }

    /// The label as a call's id. `number` is that of the call in its conversation.
    #[must_use]
    pub fn call_id(&self, name: &str, number: usize) -> String {
        let mut id = String::new();
        self.push_without_end(&mut id, name, number);
        id
    }

    fn push_without_end(&self, text: &mut String, name: &str, number: usize) {
        let Self { prefix, id, ends: _, stops: _ } = self;
        if let Some(LabelId::NumberBefore(mark)) = id {
            let _ = write!(text, "{number}{mark}");
        }
        let _ = write!(text, "{prefix}{name}");
        let _ = match id {
            None | Some(LabelId::NumberBefore(_)) => Ok(()),
            Some(LabelId::After(mark, length)) => write!(text, "{mark}{number:0length$}"),
            Some(LabelId::Number) => write!(text, ":{number}"),
            Some(LabelId::NumberAfter(mark)) => write!(text, "{mark}{}", number + 1),
        };
    }
}
