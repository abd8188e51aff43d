//! Rows of turns, and of the messages that wait for theirs.

pub(crate) mod queue;
pub(crate) mod tool_calls;
pub(crate) mod usage;
