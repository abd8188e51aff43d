//! The control plane: everything that keeps the promises.

pub mod core;
pub mod store;
pub mod supervisor;
