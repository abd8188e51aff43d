//! Everything that crosses a process boundary. This covers ids, states, errors, journal records,
//! frames of the command socket, and requests and responses of the HTTP API. Architecture
//! invariant: this crate does no I/O, starts no task and reads no clock.

// It also covers events and their derivation from raw ACP.
//
// Everything is a value or a pure function of values, so that daemon, runtime, CLI and tests agree
// by construction.

#[cfg(windows)]
compile_error!(
    "subagent does not build for Windows: it needs sockets, locks and process groups of Unix; use WSL 2 or Linux"
);

pub mod api;
pub mod ask;
pub mod attachment;
pub mod budget;
pub mod bytes64;
pub mod children;
pub mod clean;
pub mod client;
pub mod codec;
pub mod command_run;
pub mod data;
pub mod definition;
pub mod delegation;
pub mod depth;
pub mod details;
pub mod elicitation;
pub mod error;
pub mod event;
pub mod fields;
pub mod frame;
pub mod handshake;
pub mod hook;
pub mod hook_answer;
pub mod hook_input;
pub mod hook_matcher;
pub mod hosts;
pub mod ids;
pub mod json;
pub mod lenient;
pub mod markdown;
pub mod mcp;
pub mod message_text;
pub mod notification;
#[cfg(feature = "openapi")]
mod openapi;
pub mod options;
pub mod placement;
pub mod policy;
pub mod process;
pub mod rate_limit;
pub mod record;
pub mod sandbox;
pub mod schedule;
pub mod secret;
pub mod start;
pub mod state;
pub mod stream;
pub mod surrogates;
pub mod tags;
pub mod task_result;
pub mod task_terms;
pub mod time;
pub mod tool_calls;
pub mod tool_content;
pub mod trigger;
pub mod until;
pub mod update;
pub mod webhook;
pub mod words;
pub mod work_tree;
pub mod worker_name;
pub mod worktree;

pub use error::{Code, Error, Result};

/// The protocol version of this build: HTTP requests, command frames, journal records.
///
/// It is incremented when an older peer would misinterpret us; additions do not change it.
pub const PROTOCOL: u32 = 1;

/// The oldest protocol version that this build still supports.
pub const OLDEST_PROTOCOL: u32 = 1;

/// Maximum length of a single line (ACP message, command frame, request body), in bytes.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
