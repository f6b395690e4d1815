//! `tether check --probe`: tries the store of sessions.

use crate::app::{self, StoreFinding};
use crate::cli::print_diagnostic;
use crate::config::Config;

/// Tries it, and writes what it finds to standard error.
pub(super) fn probe(config: &Config) {
    for finding in app::probe_store(&config.sessions) {
        match finding {
            StoreFinding::Note(finding) => print_diagnostic("note", format!("sessions: {finding}")),
            StoreFinding::Fault(finding) => {
                print_diagnostic("warning", format!("sessions: {finding}"));
            }
        }
    }
}
