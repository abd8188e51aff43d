//! Agents in sandboxes: the confinement, the errors where it is impossible, and its cost.

mod escapes;
mod hooks;
mod methods;
mod starts;
mod worktree;
mod world;

pub(super) use world::has_layers;
