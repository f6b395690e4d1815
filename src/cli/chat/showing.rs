//! A turn on the screen, until it ends.

use super::clean;
use super::event::Event;
use super::gateway::ApiError;
use super::question::Question;
use super::screen::{Look, Screen};
use super::terminal::Stop;
use super::turn::{Heard, TurnError};
use crate::limits::chat::LINE_CHARS_MAX;

/// How a turn ended.
#[derive(Debug)]
pub(super) enum Ended {
    Answered,
    Cancelled,
    /// Nobody waits for its end any more, because of this.
    Abandoned(Stop),
    /// The user has been told why.
    Failed,
    Asked(Box<Question>),
    /// It was not begun, for this reason.
    Refused(ApiError),
}

/// A turn on the screen.
pub(super) struct Showing {
    pub(super) screen: Screen,
    look: Look,
    pub(super) is_begun: bool,
    question: Option<Box<Question>>,
    pub(super) ended: Option<Ended>,
}

impl Showing {
    pub(super) fn new(look: Look) -> Self {
        Self { screen: Screen::new(look), look, is_begun: false, question: None, ended: None }
    }

    pub(super) fn hear(&mut self, heard: Result<Heard, TurnError>) {
        match heard {
            Ok(Heard::Event(event)) => {
                self.is_begun |= matches!(event, Event::Started(_));
                self.screen.event(&event);
                match event {
                    Event::Question(question) => self.question = Some(question),
                    Event::Failed(_) => self.ended = Some(Ended::Failed),
                    Event::Completed(it) => {
                        self.ended = Some(match (&*it.finish_reason, self.question.take()) {
                            ("cancelled", _) => Ended::Cancelled,
                            (_, Some(question)) => Ended::Asked(question),
                            _ => Ended::Answered,
                        });
                    }
                    _ => {}
                }
            }
            Ok(Heard::Cut(reason)) => {
                let reason = clean::line(&reason, LINE_CHARS_MAX);
                self.screen.note(&self.look.paint.yellow(&format!("{reason}; connecting again")));
            }
            Ok(Heard::Back) => self.screen.note(&self.look.paint.dim("connected again")),
            Err(TurnError::NotBegun(error)) => self.ended = Some(Ended::Refused(error)),
            Err(error) => {
                self.screen.error(&error.to_string());
                self.ended = Some(Ended::Failed);
            }
        }
    }
}
