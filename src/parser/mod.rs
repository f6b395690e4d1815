//! Text of a model in, segments out: `PARSER` rules. Imports limits only.
