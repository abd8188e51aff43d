//! User configuration (config file, launchers, roles) and paths (workspace, state dir, sockets).
//! The crate does not know the daemon, prints nothing and starts nothing.

// It must not read the process's environment or working folder: callers pass an [`Environment`],
// so the daemon can act for its caller.

pub mod agents;
pub mod environment;
pub mod error;
pub mod hooks;
pub mod memory;
pub mod model;
pub mod policy;
pub mod proc;
pub mod result_schema;
pub mod start;

mod launchers;
mod places;
mod reading;
mod sections;

// Modules are addressed without their folder.
use launchers::known;
pub use launchers::{builtin, handshakes, installed, launcher, role};
pub use places::{
    controller_hint, own_paths, regular, runtime_dir, state_dir, state_identity, workspace, write,
};
use places::{file_system, markers, paths};
use reading::{check, layers, section, syntax, validate};
pub use reading::{discovery, file, init, problems, shown, template, unknown};
pub use sections::{
    approvals, budgets, declared, hosts, idle, mcp, notify, placements, prices, rate_limits, sandbox,
    session, user_command, worktrees,
};
use sections::{delegation, titles, webhook_url};

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
