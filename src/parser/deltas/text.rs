//! A text as JSON, piece by piece.

use std::io;

use serde::Serialize as _;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Adds a piece of a text, without the quotes around the whole.
pub(in super::super) fn push_escaped(json: &mut String, piece: &str) {
    let mut serializer = Serializer::with_formatter(Target(json), WithoutQuotes);
    piece.serialize(&mut serializer).expect("a string takes all of it");
}

struct WithoutQuotes;

impl Formatter for WithoutQuotes {
    fn begin_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        Ok(())
    }

    fn end_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        Ok(())
    }
}

/// Takes what the serializer writes, which is UTF-8.
struct Target<'s>(&'s mut String);

impl io::Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push_str(std::str::from_utf8(bytes).map_err(io::Error::other)?);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
