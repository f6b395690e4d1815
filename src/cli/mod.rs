//! The command line.

pub mod parse;
