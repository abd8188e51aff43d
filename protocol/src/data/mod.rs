//! The `data` of events as types: what the daemon writes, what its clients read, the tables in
//! `docs/events.md`, and the source of `docs/events.schema.json`. Events of an agent are derived
//! from its own data by [`crate::fields`].

pub mod budgets;
pub mod definitions;
mod event_data;
pub mod notifications;
pub mod progress;
pub mod questions;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod tasks;
pub mod turns;
#[cfg(feature = "openapi")]
mod updates;
pub mod workers;

pub use event_data::EventData;
