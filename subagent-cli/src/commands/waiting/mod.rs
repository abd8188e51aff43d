//! What the commands that wait share: the line on stderr, interruptions, and what the end means.

pub(crate) mod end;
pub(crate) mod limit;
pub(crate) mod signals;
pub(crate) mod status_line;
pub(crate) mod turn_result;
