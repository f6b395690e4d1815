//! Tools for demonstrations: an address book, messages, appointments, bills. Everything they know
//! is made up, and nothing leaves the process.
//!
//! They resemble a real assistant's tools: a lookup that can be ambiguous, an action that cannot
//! be undone, and two unrelated lists.

mod address_book;
mod lookup_appointments;
mod lookup_contacts;
mod lookup_invoices;
mod send_message;

use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

pub use lookup_appointments::LookupAppointments;
pub use lookup_contacts::LookupContacts;
pub use lookup_invoices::LookupInvoices;
pub use send_message::SendMessage;

use super::Clock;
use crate::tools::Tool;

/// All demo tools.
#[must_use]
pub fn tools() -> [Arc<dyn Tool>; 4] {
    [
        Arc::new(LookupContacts::new()),
        Arc::new(SendMessage::new()),
        Arc::new(LookupAppointments::with_clock(Clock::default())),
        Arc::new(LookupInvoices::with_clock(Clock::default())),
    ]
}

/// The clock's date, in UTC.
fn today(clock: &Clock) -> Date {
    clock.now().to_zoned(TimeZone::UTC).date()
}

/// `Monday, 23 November 2026`
fn in_words(date: Date) -> String {
    date.strftime("%A, %-d %B %Y").to_string()
}

/// The date `days` later, or the calendar's last one.
fn after(date: Date, days: i64) -> Date {
    date.saturating_add(jiff::SignedDuration::from_hours(24 * days))
}
