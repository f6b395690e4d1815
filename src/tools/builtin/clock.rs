//! The clock that tools read.

use std::fmt;

use jiff::Timestamp;

/// Tells tools the time: the system's, by default.
pub struct Clock(Box<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that calls `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Box::new(now))
    }

    /// The current time.
    #[must_use]
    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
