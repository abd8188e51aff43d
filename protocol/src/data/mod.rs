//! The `data` of events as types: what `docs/events.md` has as tables, and what `docs/events.schema.json` is made of.
//!
//! Must not read or decide anything: values are made in [`crate::fields`] from what an agent sent, and by the daemon's
//! rules from what happened.

#[cfg(feature = "openapi")]
mod milestones;
#[cfg(feature = "openapi")]
mod notifications;
pub mod progress;
#[cfg(feature = "openapi")]
pub mod schema;
#[cfg(feature = "openapi")]
mod tasks;
