//! Workers that come back: after every death of an agent, a runtime or a guard, by a message, by `worker restart`, by a
//! daemon that watches, by another worker that goes on, and after a reboot. The event says what became of the session.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

mod agent;
mod deaths;
mod hibernation;
mod reboot;
mod sessions;
