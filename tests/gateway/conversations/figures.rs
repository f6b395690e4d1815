//! Figures from conversations: whether the user was asked when necessary, and who received
//! which message.

use std::sync::Arc;
use std::sync::atomic::AtomicIsize;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use serde_json::Value;

use crate::support::Frame;
use crate::support::tools::Seen;

/// Figures shared by several conversations.
pub(crate) type Counted = Arc<Mutex<Figures>>;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) conversations: usize,
    /// Questions that were necessary, and questions that were asked.
    pub(crate) questions_due: usize,
    pub(crate) questions_asked: usize,
    /// Conversations with too few or too many questions.
    pub(crate) amiss: usize,
    /// Calls that started after a question but before its answer.
    pub(crate) ran_after_question: usize,
    /// Messages that the user wanted sent, and how many of them were.
    pub(crate) messages_due: usize,
    pub(crate) messages_sent: usize,
    /// Messages to someone the user did not choose, and duplicates.
    pub(crate) sent_wrongly: usize,
}

type Message = (String, String);

/// One conversation: what should happen, and what happens. It adds to the figures when it is
/// dropped, even if its test fails.
#[derive(Debug)]
pub(super) struct Tale {
    sent: Seen,
    due: Mutex<Vec<Message>>,
    /// Questions that are necessary but have not been asked yet.
    open: AtomicIsize,
    counted: Counted,
}

/// Ids that are in no address book: messages to them reach no one.
const NOBODY: [&str; 5] = ["John", "J", "Jo", "john", "contact_john"];

impl Tale {
    pub(super) fn new(sent: Seen, counted: &Counted) -> Self {
        counted.lock().conversations += 1;
        Self {
            sent,
            due: Mutex::default(),
            open: AtomicIsize::new(0),
            counted: Arc::clone(counted),
        }
    }

    /// The user's next turn must lead to a question.
    pub(super) fn has_to_ask(&self) {
        self.counted.lock().questions_due += 1;
        self.open.fetch_add(1, Relaxed);
    }

    /// From now on, the user wants this message sent.
    pub(super) fn has_to_send(&self, id: &str, text: &str) {
        self.due.lock().push((id.to_owned(), text.to_owned()));
    }

    /// Inspects a turn.
    pub(super) fn heard(&self, frames: Vec<Frame>) -> Vec<Frame> {
        let is_question = |frame: &Frame| {
            frame.data["tool_result"]["next_action"] == "clarification_needed"
                || frame.event == "clarification_needed"
        };
        let mut figures = self.counted.lock();
        if let Some(at) = frames.iter().position(is_question) {
            let after = frames[at..].iter().filter(|frame| frame.event == "tool_started");
            figures.ran_after_question += after.count();
        }
        let asked = frames.iter().filter(|frame| frame.event == "clarification_needed");
        let asked = asked.count();
        figures.questions_asked += asked;
        self.open.fetch_sub(isize::try_from(asked).expect("a few"), Relaxed);
        frames
    }
}

impl Drop for Tale {
    fn drop(&mut self) {
        let text = |sent: &Value, key: &str| sent[key].as_str().unwrap_or_default().to_owned();
        let sent = self.sent.lock();
        let sent = sent.iter().map(|sent| (text(sent, "contact_id"), text(sent, "text")));
        let mut due = std::mem::take(&mut *self.due.lock());
        let mut figures = self.counted.lock();
        figures.messages_due += due.len();
        figures.amiss += usize::from(self.open.load(Relaxed) != 0);
        for message in sent.filter(|(id, _)| !NOBODY.contains(&&**id)) {
            match due.iter().position(|due| *due == message) {
                Some(at) => {
                    due.remove(at);
                    figures.messages_sent += 1;
                }
                None => figures.sent_wrongly += 1,
            }
        }
    }
}
