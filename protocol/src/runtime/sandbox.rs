//! What an agent and its descendants may reach: resolved once, at the start of the worker, and
//! enforced by the kernel. Every path is absolute and without symbolic links.

mod host_port;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use host_port::{HostPort, InvalidHostPort};

use crate::state::words;

words! {
    /// How a sandboxed agent shares the files of its workspace, the strictest last.
    FileSystem {
        /// It reads and writes them.
        SharedRw = "shared_rw",
        /// It reads and writes a copy of them: a worktree with their changes.
        Isolated = "isolated",
        /// It can only read them.
        SharedRo = "shared_ro",
    }
}

words! {
    /// The network of a sandboxed agent, the strictest last.
    Network {
        /// The network of the machine.
        All = "all",
        /// Only listed hosts and ports, through a proxy, and a loopback interface of its own.
        Hosts = "hosts",
        /// A loopback interface of its own.
        Loopback = "loopback",
        /// No network at all.
        None = "none",
    }
}

/// The confinement that a worker requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxSpec {
    /// Name of its profile; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How the workspace is shared. Only `write` makes paths writable.
    pub filesystem: FileSystem,
    /// All writable paths, including everything below them.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub write: Vec<PathBuf>,
    /// All readable paths besides `write`; absent: everything except `hide`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub read: Option<Vec<PathBuf>>,
    /// Paths that are neither readable nor writable, unless a deeper path of `write` allows it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub hide: Vec<PathBuf>,
    /// Network of the agent.
    pub network: Network,
    /// All reachable hosts and ports of the network `hosts`; empty with every other one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub hosts: Vec<HostPort>,
}

/// The machine's features that enforce it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Layers {
    /// The version of Landlock's interface whose rights are used; absent without Landlock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landlock: Option<u32>,
    /// Absolute path of the program bubblewrap; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub bubblewrap: Option<PathBuf>,
}

/// The sandbox of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// What the sandbox allows the worker.
    #[serde(flatten)]
    pub spec: SandboxSpec,
    /// The layers that enforce the sandbox.
    pub layers: Layers,
}

/// The sandbox that a built-in definition has where this is possible. Elsewhere its worker starts
/// without one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum PreferredSandbox {
    /// Applied if the machine can enforce it.
    Spec(Box<SandboxSpec>),
    /// Not applied, for this reason.
    Impossible(String),
}

impl SandboxSpec {
    /// Returns the first hidden path within a writable path, with the latter.
    #[must_use]
    pub fn hidden_in_written<'a>(&'a self, always: &'a [PathBuf]) -> Option<(&'a Path, &'a Path)> {
        let hidden = self.hide.iter().chain(always);
        hidden
            .filter_map(|hidden| {
                let written = self.write.iter().find(|written| hidden.starts_with(written))?;
                Some((hidden.as_path(), written.as_path()))
            })
            .next()
    }
}

impl Layers {
    /// Returns the names of the layers, for display.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let landlock = self.landlock.is_some().then_some("landlock");
        landlock.into_iter().chain(self.bubblewrap.is_some().then_some("bubblewrap"))
    }
}
