//! The control plane: everything that keeps the promises.

pub mod api;
pub mod core;
pub mod handoff;
pub mod life;
pub mod peer;
pub mod store;
pub mod supervisor;
