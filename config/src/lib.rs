//! User configuration (config file, launchers, roles) and paths (workspace, state dir, sockets).
//! The crate does not know the daemon, prints nothing and starts nothing.

// It must not read the process's environment or working folder: callers pass an [`Environment`],
// so the daemon can act for its caller.

pub mod agents;
pub mod approvals;
pub mod budgets;
pub mod builtin;
#[cfg(test)]
mod bytes;
mod check;
pub mod controller_hint;
pub mod declared;
mod delegation;
pub mod discovery;
#[cfg(test)]
mod documented;
pub mod environment;
pub mod error;
pub mod file;
mod file_system;
pub mod handshakes;
pub mod hooks;
pub mod hosts;
pub mod idle;
pub mod init;
pub mod installed;
mod known;
pub mod launcher;
mod layers;
mod markers;
pub mod mcp;
pub mod memory;
pub mod model;
pub mod notify;
pub mod own_paths;
mod paths;
pub mod placements;
pub mod policy;
pub mod prices;
pub mod problems;
pub mod proc;
pub mod rate_limits;
pub mod regular;
pub mod result_schema;
pub mod role;
pub mod runtime_dir;
pub mod sandbox;
pub mod session;
pub mod shown;
pub mod start;
pub mod state_dir;
pub mod state_identity;
mod syntax;
pub mod template;
mod titles;
pub mod unknown;
pub mod user_command;
mod validate;
mod webhook_url;
pub mod workspace;
pub mod worktrees;
pub mod write;

pub use controller_hint::ControllerHint;
pub use discovery::{ConfigFile, ConfigSource, LoadedConfig};
pub use environment::{Environment, inherited_environment};
pub use error::{ConfigError, FieldPath};
pub use init::{Existing, InitScope, Initialized};
pub use launcher::{LauncherProblem, ResolvedLauncher};
pub use model::{Config, Defaults, Launcher, LauncherTimeouts, RoleDefaults, RoleHint};
pub use runtime_dir::RuntimeDir;
pub use state_identity::StateIdentity;
pub use workspace::Workspace;
