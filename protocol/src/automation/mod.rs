//! What happens without a person: hooks, notifications, schedules, triggers and webhooks.

pub mod hook;
pub mod hook_answer;
pub mod hook_input;
pub mod hook_matcher;
pub mod notification;
pub mod schedule;
pub mod trigger;
pub mod webhook;
