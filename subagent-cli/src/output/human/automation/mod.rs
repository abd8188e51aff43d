//! What starts work by itself: schedules, triggers and hooks.

pub(super) mod hooks;
pub(super) mod schedules;
pub(super) mod triggers;
