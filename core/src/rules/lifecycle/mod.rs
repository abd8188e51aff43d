//! The runtime and the worker: start, hibernation, restart and stop.

pub(super) mod hibernation;
pub mod restart;
pub(super) mod runtime;
pub(super) mod start;
pub mod stop;
