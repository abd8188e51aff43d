//! What agents say, and what is said to them: ACP and the MCP servers of its sessions.

pub mod ask;
pub mod attachment;
pub mod children;
pub mod client;
pub mod command_run;
pub mod elicitation;
pub mod handshake;
pub mod mcp;
pub mod options;
pub mod rate_limit;
pub mod tool_calls;
pub mod tool_content;
pub mod update;
