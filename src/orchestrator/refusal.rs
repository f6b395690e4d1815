//! Why a call is not run although somebody might have meant it to.

use crate::tools::CallRefusal;

/// Why a call is not run, which the model is told.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is no such tool, or its arguments are not valid.
    Call(CallRefusal),
    /// Its arguments name a result that is not there.
    Reference(String),
    /// With the results that it names in place, its arguments are nested too deep.
    ResolvedTooDeep,
    /// It would change the world for an option that the user has not chosen.
    NotChosen(String),
}

impl From<CallRefusal> for Refusal {
    fn from(refusal: CallRefusal) -> Self {
        Self::Call(refusal)
    }
}
