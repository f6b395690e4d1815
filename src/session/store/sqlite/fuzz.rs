//! What must hold for the file of running turns; part of the fuzz target `stored_data`.

use uuid::Uuid;

use super::redo_record::{Header, Kind, RecordHead, header, mark, read_header, records};
use crate::session::store::NodeId;

const KINDS: [Kind; 6] =
    [Kind::News, Kind::Settled, Kind::Forget, Kind::Probe, Kind::Save, Kind::Ended];

/// Checks that a file is read as it was written, up to where it is damaged.
///
/// The first three bytes say where the file is damaged, and how: one of its bytes changes, and what
/// follows a second place is lost. The rest is what its records say, up to zero bytes.
///
/// # Panics
/// If it is not.
pub(in crate::session) fn check_redo_file(data: &[u8]) {
    let Some((&[at, flip, cut], texts)) = data.split_first_chunk() else { return };
    let mut file = header(u64::from(cut));
    let mut written = Vec::new();
    for (text, epoch) in texts.split(|byte| *byte == 0).zip(1..) {
        let kind = KINDS[written.len() % KINDS.len()];
        let node = NodeId(Uuid::from_u128(u128::from(epoch)));
        let head = RecordHead { kind, epoch, first: epoch, last: u64::MAX - epoch, node };
        let session_id = String::from_utf8_lossy(text);
        mark(&mut file, head, &session_id, "turn");
        written.push((head, session_id.into_owned(), file.len()));
    }
    let changed = usize::from(at) * file.len() / 256;
    let kept = file.len() - usize::from(cut) * file.len() / 1024;
    file[changed] ^= flip;
    file.truncate(kept);
    let whole = if flip == 0 { kept } else { kept.min(changed) };
    let intact = written.iter().take_while(|(_, _, end)| *end <= whole);
    let read = records(&file);
    if whole >= header(0).len() {
        let generation = u64::from(cut);
        let is_read =
            matches!(read_header(&file), Header::Ours { generation: it, .. } if it == generation);
        assert!(is_read, "the header");
        let read: Vec<_> = read.map(|it| (it.head, it.session_id.to_owned())).collect();
        let intact: Vec<_> = intact.map(|(head, id, _)| (*head, id.clone())).collect();
        assert_eq!(read, intact, "all records before the damage, and none after it");
    } else {
        _ = (read_header(&file), read.count());
    }
}
