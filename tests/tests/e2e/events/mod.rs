//! What becomes of what agents say: events with their fields, and the agent that `worker show` tells of.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "all of this file is a test")]

mod agent;
mod played;
mod schema;
mod tool_calls;
mod transcripts;
