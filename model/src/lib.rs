//! What views show of workers, put together from the API's snapshots and events: rows, needs,
//! activity, and the transcript as a story. No I/O, no clock, no layout: a view decides how things
//! look, here it is decided what there is to see.

mod activity;
mod story;
mod workers;

pub use activity::Activity;
pub use story::{TERMINAL_OUTPUT, append, item_of, join};
pub use workers::{Applied, Group, Need, OverviewRow, Workers};
