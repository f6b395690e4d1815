//! GBNF from the JSON Schemas of the offered tools, for llama.cpp.
