//! The control plane: everything that keeps the promises.

mod alarm;
pub mod api;
pub mod core;
pub mod deliveries;
pub mod descriptors;
#[cfg(feature = "testing")]
pub mod fuzz;
pub mod handoff;
mod inotify;
pub mod lifecycle;
mod notification;
pub mod peer;
mod schedule;
pub mod schedules;
#[cfg(test)]
mod sim;
mod steady;
pub mod store;
pub mod supervisor;
mod user_config;
