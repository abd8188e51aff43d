//! Output: one JSON document, envelopes, exit codes, texts, ids.
