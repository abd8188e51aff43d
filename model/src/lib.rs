//! What views show of workers, put together from the API's snapshots and events: activity, and the transcript as a story.
//!
//! No I/O, no clock, no layout: a view decides how things look, here it is decided what there is to see.

mod activity;
mod story;

pub use activity::Activity;
pub use story::{append, item_of, join};
