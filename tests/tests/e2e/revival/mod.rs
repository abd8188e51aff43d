//! Workers that come back: after every death of an agent, a runtime or a guard, by a message, by `worker restart`, by a
//! daemon that watches, by another worker that goes on, and after a reboot. The event says what became of the session.

mod agent;
mod deaths;
mod hibernation;
mod reboot;
mod sessions;
