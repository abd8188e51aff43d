//! The `data` of events as types: the tables in `docs/events.md`, and the source of
//! `docs/events.schema.json`. Reads and decides nothing. [`crate::fields`] creates values from an
//! agent's data, and the daemon's rules create the others.

#[cfg(feature = "openapi")]
mod definitions;
#[cfg(feature = "openapi")]
mod milestones;
#[cfg(feature = "openapi")]
mod notifications;
pub mod progress;
#[cfg(feature = "openapi")]
pub mod schema;
#[cfg(feature = "openapi")]
mod tasks;
