//! Readers of events: followers, waits, and the text that they collect.

pub(crate) mod collected;
pub(crate) mod follow;
pub(crate) mod follow_all;
pub(crate) mod follow_below;
pub(crate) mod questions_below;
pub(crate) mod stream;
pub(crate) mod wait;
pub(crate) mod wait_many;
