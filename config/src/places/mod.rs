//! Where things lie: workspaces, state dirs and sockets, and how their files are read and written.

pub mod controller_hint;
pub(crate) mod file_system;
pub(crate) mod markers;
pub mod own_paths;
pub(crate) mod paths;
pub mod regular;
pub mod runtime_dir;
pub mod state_dir;
pub mod state_identity;
pub mod workspace;
pub mod write;
