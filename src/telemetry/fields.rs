//! Writes the fields of records and spans where there are no colours, as tracing-subscriber does.
//!
//! Its own formatter asks for a style before and after each name and each `=`, even if it has none:
//! two thirds of the work on a field.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes fields as `name=value`, and the message without its name.
pub(super) struct PlainFields;

impl<'w> FormatFields<'w> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_empty: true, written: Ok(()) };
        fields.record(&mut line);
        line.written
    }
}

struct Line<'w> {
    writer: Writer<'w>,
    is_empty: bool,
    written: fmt::Result,
}

impl Line<'_> {
    fn push(&mut self, field: &Field, value: fmt::Arguments<'_>) -> fmt::Result {
        if !std::mem::take(&mut self.is_empty) {
            self.writer.write_char(' ')?;
        }
        let name = field.name();
        if name != "message" {
            self.writer.write_str(name.strip_prefix("r#").unwrap_or(name))?;
            self.writer.write_char('=')?;
        }
        self.writer.write_fmt(value)
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.written.is_ok() {
            self.written = self.push(field, format_args!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::{Subscriber, info, info_span, warn};
    use tracing_subscriber::fmt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What this subscriber writes of the same records.
    fn lines(build: impl FnOnce(Written) -> Box<dyn Subscriber + Send + Sync>) -> String {
        let written = Written::default();
        tracing::subscriber::with_default(build(written.clone()), || {
            info!("plain");
            info!(tool = "look", calls = 3_u64, ratio = 0.5, is_new = true, "with fields");
            info!(only = "a field");
            let kind = io::Error::other("no \"room\"");
            let span = info_span!("turn", session = %"demo", outcome = tracing::field::Empty);
            let _entered = span.enter();
            warn!(error = %kind, debug = ?kind, r#type = "keyword", "{} words", 2);
            span.record("outcome", "stop");
            let _inner = info_span!("call", position = -1).entered();
            info!(line = "two\nlines", text = ?"two\nlines", "in both");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_are_the_same_as_those_of_the_default() {
        let writes = |written: Written| {
            let writer = move || written.clone();
            fmt().with_ansi(false).without_time().with_writer(writer)
        };
        let plain = lines(|written| Box::new(writes(written).fmt_fields(PlainFields).finish()));
        assert_eq!(plain, lines(|written| Box::new(writes(written).finish())));
        assert!(plain.contains("turn{session=demo}:"), "{plain}");
        assert!(plain.ends_with(
            "turn{session=demo outcome=\"stop\"}:call{position=-1}: \
             tether::telemetry::fields::tests: in both line=\"two\\nlines\" text=\"two\\nlines\"\n"
        ));
    }
}
