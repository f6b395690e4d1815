//! Runs the bodies of the fuzz targets on their committed corpora.

use std::path::Path;

use crate::parser::fuzz::{parser_chunks, parser_repair};

fn replay(target: &str, body: fn(&[u8])) {
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

#[test]
fn corpus_of_parser_chunks() {
    replay("parser_chunks", parser_chunks);
}

#[test]
fn corpus_of_parser_repair() {
    replay("parser_repair", parser_repair);
}
