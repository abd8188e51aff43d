//! Turns: how a message waits, begins a turn, and how the turn ends.

pub mod cancel;
pub(super) mod enqueue;
pub(super) mod parking;
pub mod queue;
pub(super) mod send;
pub(super) mod turn;
pub(super) mod turn_end;
