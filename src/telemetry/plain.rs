//! Writes records where there are no colours, as tracing-subscriber does.
//!
//! Its own formatter asks for a style before and after each part, even if it has none: two thirds of
//! the work on a line.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes a record as `<time> <level> <span>{<fields>}:<span>: <target>: <message> <fields>`.
pub(super) struct PlainLines<T>(pub(super) T);

impl<S, N, T> FormatEvent<S, N> for PlainLines<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
    T: FormatTime,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        self.0.format_time(&mut writer)?;
        writer.write_str(level(*event.metadata().level()))?;
        if let Some(spans) = context.event_scope() {
            for span in spans.from_root() {
                writer.write_str(span.name())?;
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>();
                if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
                    writer.write_char('{')?;
                    writer.write_str(fields)?;
                    writer.write_char('}')?;
                }
                writer.write_char(':')?;
            }
            writer.write_char(' ')?;
        }
        writer.write_str(event.metadata().target())?;
        writer.write_str(": ")?;
        context.format_fields(writer.by_ref(), event)?;
        writer.write_char('\n')
    }
}

/// A level between spaces, in a column of its own.
const fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => " ERROR ",
        Level::WARN => "  WARN ",
        Level::INFO => "  INFO ",
        Level::DEBUG => " DEBUG ",
        Level::TRACE => " TRACE ",
    }
}

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

    use tracing::{debug, error, info, info_span, trace, warn};
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
            let _bare = info_span!("bare").entered();
            let _inner = info_span!("call", position = -1).entered();
            info!(line = "two\nlines", text = ?"two\nlines", "in all");
            error!(target: "elsewhere", parent: None, "outside of them");
            debug!("for us");
            trace!("for us");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// A clock that stands still.
    struct Noon;

    impl FormatTime for Noon {
        fn format_time(&self, writer: &mut Writer<'_>) -> Result<(), std::fmt::Error> {
            writer.write_str("noon")
        }
    }

    #[test]
    fn lines_are_the_same_as_those_of_the_default() {
        let writes = |written: Written| {
            let writer = move || written.clone();
            fmt().with_ansi(false).with_timer(Noon).with_max_level(Level::TRACE).with_writer(writer)
        };
        let plain = lines(|written| {
            let builder = writes(written).event_format(PlainLines(Noon));
            Box::new(builder.fmt_fields(PlainFields).finish())
        });
        assert_eq!(plain, lines(|written| Box::new(writes(written).finish())));
        assert!(plain.contains("noon  WARN turn{session=demo}: "), "{plain}");
        assert!(plain.contains(
            "noon  INFO turn{session=demo outcome=\"stop\"}:bare:call{position=-1}: \
             tether::telemetry::plain::tests: in all line=\"two\\nlines\" text=\"two\\nlines\"\n"
        ));
    }
}
