//! What agents say, do and ask: events, turns and questions.

pub(super) mod content;
pub(super) mod event;
pub(super) mod inbox;
pub(super) mod questions;
pub(super) mod sentences;
pub(super) mod story;
pub(super) mod stream;
pub(super) mod turns;
