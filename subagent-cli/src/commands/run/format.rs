//! The forms of output of `run`.

use clap::ValueEnum;

/// The forms of output of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunOutputFormat {
    /// The agent's final message on stdout, and what it does meanwhile on stderr
    Text,
    /// One JSON document with the result
    Json,
    /// The events, one line each, then the result as the last line
    Ndjson,
}
