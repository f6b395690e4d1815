//! The command line, which `tests/soak/run` writes.

use std::path::PathBuf;
use std::time::Duration;

use crate::Error;
use crate::world::Load;

/// Files that the gateway has open besides its streams, and those of the clients: connections that idle,
/// slow senders, turns that were left a moment ago.
const FILES_BESIDES: u64 = 250;
/// Tokens of a stream in a second.
const RATE: u32 = 2;
/// One in a hundred clients cuts its stream each second.
const CUT_EVERY: Duration = Duration::from_secs(100);
/// Longer than a client may take nothing (30 s), and than its buffers need to be full.
const LONG_STALL: Duration = Duration::from_secs(45);
/// Phases that are shorter have no time for long stalls.
const LONG: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub(crate) struct Options {
    /// The gateway.
    pub(crate) binary: PathBuf,
    /// For its configuration and its log.
    pub(crate) directory: PathBuf,
    pub(crate) streams: u64,
    pub(crate) lasts: Duration,
    pub(crate) overload_lasts: Duration,
    /// Times are shown, and fail nothing.
    pub(crate) is_short: bool,
    seed: u64,
}

impl Options {
    /// Reads `NAME VALUE` pairs.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let seconds = Duration::from_secs;
        let mut options = Self {
            binary: PathBuf::new(),
            directory: PathBuf::from("."),
            streams: 10_000,
            lasts: seconds(600),
            overload_lasts: seconds(60),
            is_short: false,
            seed: 1,
        };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--bin" => options.binary = value()?.into(),
                "--directory" => options.directory = value()?.into(),
                "--streams" => options.streams = value()?.parse()?,
                "--seconds" => options.lasts = seconds(value()?.parse()?),
                "--overload-seconds" => options.overload_lasts = seconds(value()?.parse()?),
                "--seed" => options.seed = value()?.parse()?,
                "--short" => options.is_short = true,
                _ => return Err(format!("unknown option {name}").into()),
            }
        }
        Ok(options)
    }

    /// Files that the gateway needs to have open.
    pub(crate) const fn files(&self) -> u64 {
        files(self.streams)
    }

    /// As many streams as so many files allow.
    pub(crate) const fn streams_within(files: u64) -> u64 {
        files.saturating_sub(FILES_BESIDES) * 100 / 202
    }

    /// Clients of all kinds, for whom there is room.
    pub(crate) fn load(&self) -> Load {
        let long_stall = (self.lasts >= LONG).then_some(LONG_STALL);
        let turns = (self.lasts / 20, self.lasts / 5);
        let (least, most) = (Duration::from_secs(10), Duration::from_secs(30));
        Load {
            clients: self.streams,
            loris: (self.streams / 100).max(20),
            ramp: (self.lasts / 10).clamp(Duration::from_secs(5), Duration::from_secs(30)),
            lasts: self.lasts,
            interval: Duration::from_secs(1) / RATE,
            turns: Some((turns.0.max(least), turns.1.max(most))),
            cut_every: CUT_EVERY,
            long_stall,
            is_overload: false,
            seed: self.seed,
        }
    }

    /// Twice as many clients as there is room for.
    pub(crate) fn overload(&self) -> Load {
        Load {
            loris: 0,
            ramp: self.overload_lasts / 5,
            lasts: self.overload_lasts,
            turns: None,
            long_stall: None,
            is_overload: true,
            ..self.load()
        }
    }
}

const fn files(streams: u64) -> u64 {
    streams * 202 / 100 + FILES_BESIDES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_streams_as_the_files_allow() {
        for max in [1024, 20_000, 32_768] {
            let streams = Options::streams_within(max);
            assert!(files(streams) <= max && max < files(streams + 2), "{max}: {streams}");
        }
    }
}
