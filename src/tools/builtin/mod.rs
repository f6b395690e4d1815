//! The tools that come with the gateway. Both only compute, mostly for
//! microseconds and never for longer than some milliseconds, so they run where
//! they are called.

pub mod calculate;
pub mod get_current_time;
pub(crate) mod zone;

pub use calculate::Calculate;
pub use get_current_time::GetCurrentTime;
