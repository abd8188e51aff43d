//! From agents' output to events with their fields, and to the agent in `worker show`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "all of this file is a test")]

mod agent;
mod played;
mod schema;
mod tool_calls;
mod transcripts;
