//! Agents in sandboxes: what keeps them in, what is refused where nothing can, and what it costs.

mod escapes;
mod methods;
mod starts;
mod worktree;
mod world;

pub(super) use world::has_layers;
