//! Replays the committed corpora of the fuzz targets.

use std::path::Path;

/// Runs the body of a fuzz target on each file of its corpus.
///
/// # Panics
/// If the body panics: with the name of the file.
#[track_caller]
pub(crate) fn replay(target: &str, body: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files = 0;
    for entry in corpus.read_dir().expect("a corpus is committed") {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        let held = std::panic::catch_unwind(|| body(&data));
        assert!(held.is_ok(), "{}", path.display());
        files += 1;
    }
    assert!(files >= 10, "{target} has {files} files");
}
