//! The control plane: everything that keeps the promises.

mod alarm;
mod api;
mod deliveries;
mod descriptors;
mod handoff;
mod inotify;
pub mod lifecycle;
mod notification;
mod or_never;
mod peer;
mod schedule;
mod schedules;
#[cfg(test)]
mod sim;
mod steady;
mod store;
mod supervisor;
#[cfg(feature = "testing")]
pub mod testing;
mod usage;
mod user_config;

pub use descriptors::max_runtimes;
pub use schedules::{check_declared, check_payload};
pub use store::{APPLICATION_ID, SCHEMA};
pub use supervisor::{result_check, stray_processes};
