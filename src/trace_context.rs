//! The place of a request in a distributed trace (W3C Trace Context, level 2).
//!
//! ```text
//!   traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//!                |  '- trace id, 32 digits ---------' '- span id, 16 -' '- flags
//!                '- version
//! ```

use std::fmt;

/// A place in a trace: the span from which a request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace, never 0.
    pub trace_id: u128,
    /// The span that makes the request, never 0.
    pub span_id: u64,
    /// Flags. Only the lowest bit means something here: the trace is recorded.
    pub flags: u8,
    /// `tracestate`: what tracing systems add, passed on as it is.
    pub state: Option<Box<str>>,
}

/// The flag `sampled`: the trace is recorded.
const SAMPLED: u8 = 1;

/// The longest `tracestate` that is passed on, in bytes: vendors should pass on at least this much.
const STATE_BYTES_MAX: usize = 512;

/// Members of a `tracestate` (W3C Trace Context, section 3.3.1.1).
const STATE_MEMBERS_MAX: usize = 32;

impl TraceContext {
    /// Reads the headers of a request (section 3.2). A `traceparent` that is not exactly what the standard says
    /// counts as absent, so that a trace begins here. A `tracestate` that others might refuse is left out.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: &str) -> Option<Self> {
        let mut fields = traceparent.split('-');
        let version = hex(fields.next()?, 2)?;
        let trace_id = hex(fields.next()?, 32).filter(|id| *id != 0)?;
        let span_id = hex(fields.next()?, 16).filter(|id| *id != 0)?;
        let flags = hex(fields.next()?, 2)?;
        let is_valid = match version {
            0 => fields.next().is_none(),
            0xff => false,
            // Later versions may add fields.
            _ => true,
        };
        is_valid.then_some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            flags: u8::try_from(flags).ok()?,
            state: passed_on(tracestate),
        })
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The headers for a request in this context.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = self.state.as_ref().map(|state| ("tracestate", state.to_string()));
        [("traceparent", self.to_string())].into_iter().chain(state)
    }

    /// The same trace, in another span.
    #[must_use]
    pub fn child(&self, span_id: u64) -> Self {
        Self { span_id, ..self.clone() }
    }

    /// A trace that begins here.
    #[must_use]
    pub const fn root(trace_id: u128, span_id: u64, is_sampled: bool) -> Self {
        Self { trace_id, span_id, flags: if is_sampled { SAMPLED } else { 0 }, state: None }
    }
}

/// The value of `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace_id, span_id, flags, .. } = self;
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{:02x}", flags & SAMPLED)
    }
}

/// A number of exactly `count` hexadecimal digits, in lower case.
fn hex(digits: &str, count: usize) -> Option<u128> {
    let is_hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_hex && digits.len() == count).then(|| u128::from_str_radix(digits, 16).ok())?
}

/// A `tracestate`, unless it is empty or others might refuse it.
fn passed_on(tracestate: &str) -> Option<Box<str>> {
    let state = tracestate.trim();
    let is_printable = state.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_short = state.len() <= STATE_BYTES_MAX && state.split(',').count() <= STATE_MEMBERS_MAX;
    let is_passed_on = !state.is_empty() && is_short && is_printable;
    is_passed_on.then(|| state.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_written_again() {
        for flags in ["00", "01"] {
            let text = format!("{}{flags}", &GOOD[..GOOD.len() - 2]);
            let context = TraceContext::parse(&text, "a=1,b=2").unwrap();
            assert_eq!(context.to_string(), text);
            assert_eq!(context.is_sampled(), flags == "01");
            assert_eq!(context.state.as_deref(), Some("a=1,b=2"));
            let child = context.child(0xab);
            assert_eq!(child.to_string(), text.replace("00f067aa0ba902b7", "00000000000000ab"));
            assert_eq!(child.state, context.state);
        }
    }

    /// Of the flags, only the known one is passed on.
    #[test]
    fn later_versions_are_read_as_version_0() {
        let later = GOOD.replacen("00", "cc", 1).replace("-01", "-ff-what-comes");
        assert_eq!(TraceContext::parse(&later, "").unwrap().to_string(), GOOD);
    }

    #[test]
    fn anything_else_is_no_context() {
        let cut = (0..GOOD.len()).map(|end| GOOD[..end].to_owned());
        let wrong = [
            GOOD.replacen("00", "ff", 1),
            GOOD.replacen("00", "0x", 1),
            GOOD.to_uppercase(),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            GOOD.replace('-', "_"),
            GOOD.replace("-01", "-0g"),
            format!("{GOOD}-01"),
            format!("{GOOD}0"),
            format!(" {GOOD}"),
            "\u{e9}".repeat(30),
        ];
        for text in cut.chain(wrong) {
            assert_eq!(TraceContext::parse(&text, ""), None, "{text}");
        }
    }

    #[test]
    fn a_state_that_others_might_refuse_is_left_out() {
        let state = |state: &str| TraceContext::parse(GOOD, state).unwrap().state;
        assert_eq!(state(&"x".repeat(512)).unwrap().len(), 512);
        let members = |count| vec!["a=1"; count].join(",");
        assert_eq!(state(&members(32)), Some(members(32).into()));
        assert_eq!(state(&members(33)), None);
        for left_out in ["", " ", &"x".repeat(513), "a=\u{e9}", "a=1\n,b=2"] {
            assert_eq!(state(left_out), None, "{left_out}");
        }
    }
}
