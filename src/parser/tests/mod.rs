mod apart;
mod corpus;
mod limits;
mod properties;
mod reference;
mod round_trips;
mod scale;
mod streaming;
mod table;

use super::fuzz::{Event, How, Record, check_calls, check_conservation, record};
use super::*;
use crate::call_format::{CallFormat, HERMES};

/// The settings of a test, with spans on, so that each row also tests conservation.
fn settings() -> Settings {
    Settings { spans: true, ..Settings::default() }
}

/// The same with another marker.
fn marked(marker: &str) -> Settings {
    Settings { format: CallFormat::marker(marker), ..settings() }
}

/// Reads the input whole, byte by byte and cut at every position, as bytes and as text, and checks
/// that the results agree. Returns the result.
#[track_caller]
fn read_every_way(settings: &Settings, input: &[u8]) -> Record {
    let whole = record(settings, input, &[], How::Bytes);
    check_conservation(settings, input, &whole);
    let same = |lengths: &[usize], how| {
        let mut cut = record(settings, input, lengths, how);
        check_conservation(settings, input, &cut);
        // How much is reported of a call that fails depends on the cuts.
        cut.names.clone_from(&whole.names);
        cut.deltas.clone_from(&whole.deltas);
        assert_eq!(cut, whole, "cut into {lengths:?}, {how:?}");
        // Without spans, plain chunks take a shortcut.
        let quick = Settings { spans: false, ..settings.clone() };
        assert_eq!(
            record(&quick, input, lengths, how).events,
            whole.events,
            "{lengths:?}, {how:?}"
        );
    };
    for how in [How::Bytes, How::Text] {
        same(&[], how);
        same(&[1], how);
        same(&[2], how);
        same(&[3], how);
        for cut in 1..input.len() {
            same(&[cut, input.len()], how);
        }
    }
    whole
}
