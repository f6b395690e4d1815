//! The time, as tools ask for it.

use std::fmt;

use jiff::Timestamp;

/// What tells a tool the time: by default the system.
pub struct Clock(Box<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock of the caller's.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Box::new(now))
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
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
