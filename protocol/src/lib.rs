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
pub mod data;
pub mod details;
pub mod error;
pub mod event;
pub mod hosts;
pub mod ids;
#[cfg(feature = "openapi")]
mod openapi;
pub mod placement;
pub mod time;

mod acp;
mod automation;
mod runtime;
mod text;
mod work;

// Modules are addressed without their folder.
pub use acp::{
    ask, attachment, children, client, command_run, elicitation, handshake, mcp, options, rate_limit,
    tool_calls, tool_content, update,
};
pub use automation::{hook, hook_answer, hook_input, hook_matcher, notification, schedule, trigger, webhook};
pub use runtime::{bytes64, codec, frame, process, record, sandbox, start, stream};
pub use text::{clean, fields, json, lenient, markdown, message_text, secret, surrogates, tags, words};
pub use work::{
    budget, definition, delegation, depth, policy, state, task_result, task_terms, until, work_tree,
    worker_name, worktree,
};

pub use error::{Code, Error, Result};

/// The protocol version of this build: HTTP requests, command frames, journal records.
///
/// It is incremented when an older peer would misinterpret us; additions do not change it.
pub const PROTOCOL: u32 = 1;

/// The oldest protocol version that this build still supports.
pub const OLDEST_PROTOCOL: u32 = 1;

/// Maximum length of a single line (ACP message, command frame, request body), in bytes.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
