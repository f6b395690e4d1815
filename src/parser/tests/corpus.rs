//! Runs the bodies of the fuzz targets on their committed corpora.

use crate::corpus::replay;
use crate::parser::fuzz::{parser_chunks, parser_repair};

#[test]
fn corpus_of_parser_chunks() {
    replay("parser_chunks", parser_chunks);
}

#[test]
fn corpus_of_parser_repair() {
    replay("parser_repair", parser_repair);
}
