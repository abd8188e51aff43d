//! What starts work by itself: schedules, triggers, hooks and notifications.

pub(in crate::api) mod hooks;
pub(in crate::api) mod notifications;
pub(in crate::api) mod schedules;
pub(in crate::api) mod triggers;
