//! A conversation: prompts, turns, and the questions between them.

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use uuid::Uuid;

use super::args::DEFAULT_URL;
use super::clean;
use super::command::{HELP, Input};
use super::form::Step;
use super::gateway::Gateway;
use super::question::{Dialog, Question};
use super::screen::{Look, Screen};
use super::showing::{Ended, Showing};
use super::terminal::{self, Interrupts, Stop, Typed, Typing};
use super::turn::{Entry, Turn};
use crate::cli::CliError;
use crate::limits::chat::{
    CANCEL_TIMEOUT, EVENTS_WAITING_MAX, LINE_CHARS_MAX, RESUMED_CHARS_MAX, TICK, TITLE_CHARS_MAX,
};

/// A session on a gateway, and the terminal that talks to it.
pub(super) struct Conversation {
    gateway: Gateway,
    session: String,
    /// The user named the session.
    is_resumed: bool,
    /// A turn has begun, so that there is something to come back to.
    has_begun: bool,
    look: Look,
    interrupts: Interrupts,
    /// Requests to cancel a turn, which name its session alone: the next turn waits for them.
    cancels: JoinSet<()>,
}

/// What follows at the prompt.
enum Next {
    Prompt,
    Leave,
}

impl Conversation {
    /// A conversation that is resumed or, without an id, new.
    ///
    /// # Errors
    /// If signals cannot be listened to.
    pub(super) fn new(gateway: Gateway, session: Option<String>) -> Result<Self, CliError> {
        Ok(Self {
            gateway,
            is_resumed: session.is_some(),
            session: session.unwrap_or_else(new_session),
            has_begun: false,
            look: terminal::look(),
            interrupts: Interrupts::listen()?,
            cancels: JoinSet::new(),
        })
    }

    /// Sends one prompt and writes the answer.
    ///
    /// # Errors
    /// If there is no complete answer.
    pub(super) async fn answer_once(&mut self, prompt: &str) -> Result<(), CliError> {
        match self.turn(Entry::Begin(self.prompted(prompt))).await? {
            Ended::Answered => Ok(()),
            Ended::Cancelled | Ended::Failed => Err(CliError::Silent),
            Ended::Abandoned(_) => {
                self.cancel_now().await;
                Err(CliError::Silent)
            }
            Ended::Refused(error) => Err(CliError::Failed(error.to_string())),
            Ended::Asked(_) => {
                let resume = self.command_to_resume();
                Err(CliError::Failed(format!(
                    "the question needs an answer, and standard input is not a terminal; to \
                     answer it, run `{resume}`"
                )))
            }
        }
    }

    /// Talks until the user leaves.
    ///
    /// # Errors
    /// If the gateway or the terminal cannot be used.
    pub(super) async fn talk(&mut self) -> Result<(), CliError> {
        let mut typing = Typing::new()?;
        let Ok(tools) = self.interrupts.unless_stopped(self.gateway.tools()).await else {
            return Ok(());
        };
        let tools = tools.map_err(|error| CliError::Failed(error.to_string()))?.len();
        let (base, session) = (self.gateway.base(), &self.session);
        self.whisper(&format!("{base} has {tools} tools; session {session}"));
        self.whisper("/help lists the commands, Ctrl-D leaves");
        let mut next = self.resume(&mut typing).await?;
        while let Next::Prompt = next {
            terminal::note("\n");
            next = match typing.line("> ", true, &mut self.interrupts).await? {
                Typed::Line(line) => self.take_line(&line, &mut typing).await?,
                Typed::Interrupt | Typed::End => Next::Leave,
            };
        }
        if self.has_begun {
            let resume = self.command_to_resume();
            self.whisper(&format!("to go on: {resume}"));
        }
        Ok(())
    }

    /// Shows where a resumed session is, and goes on with its turn or its question.
    async fn resume(&mut self, typing: &mut Typing) -> Result<Next, CliError> {
        if !self.is_resumed {
            return Ok(Next::Prompt);
        }
        let found = self.gateway.session(&self.session);
        let Ok(found) = self.interrupts.unless_stopped(found).await else {
            return Ok(Next::Leave);
        };
        let Some(transcript) = found.map_err(|error| CliError::Failed(error.to_string()))? else {
            self.whisper("no session has this id yet; starting a new one");
            return Ok(Next::Prompt);
        };
        self.has_begun = true;
        match transcript.len() {
            1 => self.whisper("1 turn so far"),
            count => self.whisper(&format!("{count} turns so far")),
        }
        if let Some((prompt, answer)) = transcript.last_exchange() {
            let answer = clean::text(answer.trim());
            let kept: String = answer.chars().take(RESUMED_CHARS_MAX).collect();
            let cut = if kept.len() < answer.len() { "…" } else { "" };
            self.whisper(&format!("> {}", clean::line(&prompt, LINE_CHARS_MAX)));
            self.whisper(&format!("{kept}{cut}"));
        }
        if let Some(turn) = &transcript.running_turn_id {
            self.whisper("a turn is running:");
            return self.go_on(Entry::Join(turn.clone()), typing).await;
        }
        match transcript.question() {
            Some(question) => {
                terminal::note(&question.shown(self.look.paint));
                self.ask_from(question, typing).await
            }
            None => Ok(Next::Prompt),
        }
    }

    async fn take_line(&mut self, line: &str, typing: &mut Typing) -> Result<Next, CliError> {
        match Input::parse(line) {
            Input::Empty => {}
            Input::Prompt(prompt) => {
                return self.go_on(Entry::Begin(self.prompted(prompt)), typing).await;
            }
            Input::Help => terminal::note(HELP),
            Input::Session => terminal::note(&format!("{}\n", self.session)),
            Input::Tools => return Ok(self.list_tools().await),
            Input::New => {
                self.session = new_session();
                self.has_begun = false;
                self.whisper(&format!("session {}", self.session));
            }
            Input::Quit => return Ok(Next::Leave),
            Input::Unknown(command) => {
                let command = clean::line(command, TITLE_CHARS_MAX);
                self.error(&format!("unknown command {command}; /help lists the commands"));
            }
        }
        Ok(Next::Prompt)
    }

    /// Runs a turn, and those that answers to its questions begin.
    async fn go_on(&mut self, entry: Entry, typing: &mut Typing) -> Result<Next, CliError> {
        match self.turn(entry).await? {
            Ended::Answered | Ended::Cancelled | Ended::Failed => Ok(Next::Prompt),
            Ended::Abandoned(stop) => Ok(self.abandon(stop).await),
            Ended::Asked(question) => self.ask_from(*question, typing).await,
            Ended::Refused(error) => {
                self.error(&error.to_string());
                Ok(Next::Prompt)
            }
        }
    }

    /// Asks a question that is on the screen, and those that follow from its answer.
    async fn ask_from(
        &mut self,
        mut question: Question,
        typing: &mut Typing,
    ) -> Result<Next, CliError> {
        loop {
            let answer = match self.ask(&question, typing).await? {
                Ok(answer) => answer,
                Err(next) => return Ok(next),
            };
            let body = json!({ "session_id": self.session, "clarification_response": answer });
            match self.turn(Entry::Begin(body)).await? {
                Ended::Answered | Ended::Cancelled | Ended::Failed => return Ok(Next::Prompt),
                Ended::Abandoned(stop) => return Ok(self.abandon(stop).await),
                Ended::Asked(next) => question = *next,
                // The question is still open: the answer does not fit it.
                Ended::Refused(error) if error.has_code("invalid_request") => {
                    self.error(&error.to_string());
                }
                Ended::Refused(error) => {
                    self.error(&error.to_string());
                    return Ok(Next::Prompt);
                }
            }
        }
    }

    /// Reads the answer to a question, or what follows without one.
    async fn ask(
        &mut self,
        question: &Question,
        typing: &mut Typing,
    ) -> Result<Result<Value, Next>, CliError> {
        let mut dialog = Dialog::new(question);
        terminal::note(&dialog.opening(self.look.paint));
        // Discard keys typed before the question appeared: they must not approve anything.
        terminal::forget_typed();
        loop {
            match typing.line(&dialog.prompt(), false, &mut self.interrupts).await? {
                Typed::Line(line) => match dialog.answer(&line) {
                    Step::Answer(answer) => return Ok(Ok(answer)),
                    Step::Ask(shown) => terminal::note(&shown),
                },
                Typed::Interrupt => {
                    self.whisper("the question is left open; the next prompt drops it");
                    return Ok(Err(Next::Prompt));
                }
                Typed::End => return Ok(Err(Next::Leave)),
            }
        }
    }

    /// Shows a turn until it ends. Ctrl-C cancels it, a second one abandons it.
    async fn turn(&mut self, entry: Entry) -> Result<Ended, CliError> {
        // The terminal may have another size by now.
        self.look = terminal::look();
        self.settle_cancels().await;
        let begun = Instant::now();
        let mut showing = Showing::new(self.look);
        let mut turn = Turn::enter(&self.gateway, &self.session, entry);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut cancelled: Option<Instant> = None;
        let ended = loop {
            tokio::select! {
                heard = turn.next() => {
                    let mut heard = heard;
                    if heard.is_none() {
                        // The reader has ended without a word, which is a bug.
                        break Ended::Failed;
                    }
                    // What came together is shown together.
                    for _ in 0..EVENTS_WAITING_MAX {
                        let Some(next) = heard.take() else { break };
                        let was_begun = showing.is_begun;
                        showing.hear(next);
                        if showing.is_begun && !was_begun && cancelled.is_some() {
                            self.cancel();
                        }
                        heard = turn.ready();
                    }
                }
                _ = ticks.tick(), if self.look.can_erase => showing.screen.resize(terminal::columns()),
                stop = self.interrupts.next() => {
                    if cancelled.is_some() || stop == Stop::Terminate {
                        break Ended::Abandoned(stop);
                    }
                    cancelled = Some(Instant::now() + CANCEL_TIMEOUT);
                    showing.screen.note(&self.look.paint.dim("cancelling; Ctrl-C again leaves at once"));
                    if showing.is_begun {
                        self.cancel();
                    }
                }
                () = sleep_until(cancelled.unwrap_or(begun)), if cancelled.is_some() => {
                    showing.screen.error("the gateway did not confirm the cancellation");
                    break Ended::Abandoned(Stop::Interrupt);
                }
            }
            showing.screen.tick(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
            self.show(&mut showing.screen).await?;
            if let Some(ended) = showing.ended.take() {
                break ended;
            }
        };
        self.has_begun |= showing.is_begun;
        showing.screen.finish();
        self.show(&mut showing.screen).await?;
        let ended = match ended {
            Ended::Asked(question) => self.whole(question).await,
            ended => ended,
        };
        // A Ctrl-C that came too late was meant for the turn, not for the prompt.
        match self.interrupts.pending().await {
            Some(Stop::Terminate) => Ok(Ended::Abandoned(Stop::Terminate)),
            _ => Ok(ended),
        }
    }

    /// Writes what there is. If standard output is closed, cancels the turn: nobody reads it.
    async fn show(&self, screen: &mut Screen) -> Result<(), CliError> {
        let shown = terminal::show(screen.take());
        if shown.is_err() {
            // It may have ended; and if not, the gateway cancels it for want of a reader.
            let _ = timeout(CANCEL_TIMEOUT, self.gateway.cancel(&self.session)).await;
        }
        Ok(shown?)
    }

    /// Asks the gateway to cancel the running turn.
    fn cancel(&mut self) {
        let (gateway, session) = (self.gateway.clone(), self.session.clone());
        self.cancels.spawn(async move {
            // The turn's stream says what became of it.
            let _ = gateway.cancel(&session).await;
        });
    }

    /// Waits until no earlier request to cancel can reach the turn that comes next.
    async fn settle_cancels(&mut self) {
        let cancels = &mut self.cancels;
        let settled = async { while cancels.join_next().await.is_some() {} };
        if timeout(CANCEL_TIMEOUT, settled).await.is_err() {
            self.cancels.shutdown().await;
        }
    }

    /// Cancels a turn for whose end nobody waits. It may not even have begun to be heard of.
    async fn abandon(&mut self, stop: Stop) -> Next {
        match stop {
            Stop::Interrupt => {
                self.cancel();
                Next::Prompt
            }
            Stop::Terminate => {
                self.cancel_now().await;
                Next::Leave
            }
        }
    }

    /// The same before the program ends, which would end the request.
    async fn cancel_now(&mut self) {
        let cancelled = timeout(CANCEL_TIMEOUT, self.gateway.cancel(&self.session));
        let _ = self.interrupts.unless_stopped(cancelled).await;
    }

    /// A question with everything that was too long for its event.
    async fn whole(&mut self, question: Box<Question>) -> Ended {
        if !question.is_shortened {
            return Ended::Asked(question);
        }
        let found = self.gateway.session(&self.session);
        let whole = match self.interrupts.unless_stopped(found).await {
            Ok(Ok(Some(transcript))) => transcript.question(),
            Ok(_) | Err(Stop::Interrupt) => None,
            Err(stop @ Stop::Terminate) => return Ended::Abandoned(stop),
        };
        match whole {
            Some(whole) if whole.clarification_id == question.clarification_id => {
                terminal::note(&whole.shown(self.look.paint));
                Ended::Asked(Box::new(whole))
            }
            _ => Ended::Asked(question),
        }
    }

    async fn list_tools(&mut self) -> Next {
        let listed = match self.interrupts.unless_stopped(self.gateway.tools()).await {
            Ok(listed) => listed,
            Err(Stop::Interrupt) => return Next::Prompt,
            Err(Stop::Terminate) => return Next::Leave,
        };
        match listed {
            Ok(tools) => {
                for tool in tools {
                    let name = clean::line(&tool.name, TITLE_CHARS_MAX);
                    let description = clean::line(&tool.description, TITLE_CHARS_MAX);
                    let description = self.look.paint.dim(&description);
                    terminal::note(&format!("  {name}  {description}\n"));
                }
            }
            Err(error) => self.error(&error.to_string()),
        }
        Next::Prompt
    }

    fn prompted(&self, prompt: &str) -> Value {
        json!({ "session_id": self.session, "prompt": prompt })
    }

    fn command_to_resume(&self) -> String {
        let base = self.gateway.base();
        let url = if base == DEFAULT_URL { String::new() } else { format!(" --url {base}") };
        format!("tether chat{url} --session {}", self.session)
    }

    /// Writes a line that the user may ignore.
    fn whisper(&self, line: &str) {
        terminal::note(&format!("{}\n", self.look.paint.dim(line)));
    }

    fn error(&self, message: &str) {
        terminal::note(&format!("{}: {message}\n", self.look.paint.red("error")));
    }
}

fn new_session() -> String {
    Uuid::new_v4().to_string()
}
