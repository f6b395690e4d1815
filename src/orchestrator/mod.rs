//! A turn from the user's words to the answer: model, tools, model again.
//!
//! [`turn`] decides, [`driver`] acts. The turn machine is pure: events go in and actions come out,
//! so thousands of random schedules can test it without a runtime. The driver has no policy.

mod briefing;
mod call;
mod chain;
mod driver;
mod feedback;
mod hints;
mod known_tools;
mod meter;
mod parked_calls;
mod prerequisites;
mod primer;
mod prompt;
mod references;
mod rejection;
mod repeats;
mod response_format;
mod result_guard;
mod rules;
mod running_tools;
mod selection;
mod semconv;
mod stop_texts;
mod tool_task;
mod turn;
mod turn_trace;

pub use briefing::Briefing;
pub use call::CallAt;
pub use chain::Execution;
pub(crate) use driver::{Driver, Parts, RanTurn};
pub(crate) use parked_calls::ParkedCalls;
pub use response_format::{ResponseFormat, ResponseFormatError};
pub use rules::{Rules, Select};
pub use selection::{Basis, Selection};
pub use turn::{Input, LogLine, NotRun, Output, TurnMachine, TurnRequest};
