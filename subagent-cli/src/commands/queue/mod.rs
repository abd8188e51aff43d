//! `queue`: what waits for a worker as a whole.

pub(crate) mod resume;
