//! The command line, which `benches/peers/run` passes on.

use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

#[derive(Debug)]
pub(crate) struct Options {
    /// Only participants with this in their names.
    pub(crate) only: String,
    /// Only streams whose names begin so.
    pub(crate) work: String,
    /// When to stop a run.
    pub(crate) cap: Duration,
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// Reads `NAME VALUE` pairs.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut options = Self {
            only: String::new(),
            work: String::new(),
            cap: Duration::from_secs(5),
            json: None,
        };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--only" => options.only = value()?,
                "--work" => options.work = value()?,
                "--cap" => options.cap = Duration::from_secs(value()?.parse()?),
                "--json" => options.json = Some(value()?.into()),
                _ => return Err(format!("unknown option {name}").into()),
            }
        }
        Ok(options)
    }
}
