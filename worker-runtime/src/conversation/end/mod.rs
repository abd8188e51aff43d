//! The end of the agent, on request or by itself.

pub(in crate::conversation) mod ending;
pub(in crate::conversation) mod exits;
pub(in crate::conversation) mod shutdown;
