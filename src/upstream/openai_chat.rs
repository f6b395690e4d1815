//! Chat Completions: a round as its request, a frame as deltas.
