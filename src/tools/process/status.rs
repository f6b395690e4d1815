//! How programs end, in words.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::Signal;

/// How a program ended: `exit status 7`, `ended by SIGKILL`.
#[must_use]
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by {}", signal_name(signal)),
        (None, None) => "ended abnormally".to_owned(),
    }
}

fn signal_name(signal: i32) -> String {
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::ILL, "SIGILL"),
        (Signal::ABORT, "SIGABRT (it crashed)"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV (it crashed)"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU (it used up its processor time)"),
        (Signal::XFSZ, "SIGXFSZ (it wrote too large a file)"),
    ];
    let name = names.iter().find(|(number, _)| number.as_raw() == signal);
    name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}
