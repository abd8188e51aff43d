//! The runtime of a worker: its start, its connection, its end, and what follows from each.

pub(crate) mod connection;
pub(crate) mod copied;
pub(crate) mod engine_queue;
pub(crate) mod fenced;
pub(crate) mod frames;
pub(crate) mod gone;
pub(crate) mod hibernation;
pub(crate) mod incarnation;
pub(crate) mod live;
pub(crate) mod place_ends;
pub(crate) mod placed;
pub(crate) mod proof;
pub(crate) mod reach;
pub(crate) mod recovery;
pub(crate) mod revival;
pub(crate) mod slot;
pub(crate) mod starting;
pub(crate) mod submitting;
