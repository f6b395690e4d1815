//! The rehearsal model inside the binary.
