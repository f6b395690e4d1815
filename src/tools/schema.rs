//! Arguments against a tool's JSON Schema.
