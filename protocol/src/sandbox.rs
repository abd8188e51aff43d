//! What an agent and everything below it may reach: resolved once, at the start of the worker, and enforced by the kernel.
//!
//! Every path is absolute and without symbolic links.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::state::words;

words! {
    /// How a sandboxed agent shares the files of its workspace. The later one is the stricter one.
    FileSystem {
        /// It reads and writes them.
        SharedRw = "shared_rw",
        /// It reads and writes a copy of them: a worktree with their changes.
        Isolated = "isolated",
        /// It reads them.
        SharedRo = "shared_ro",
    }
}

words! {
    /// Which network a sandboxed agent has. The later one is the stricter one.
    Network {
        /// That of the machine.
        All = "all",
        /// A loopback interface of its own.
        Loopback = "loopback",
        /// None.
        None = "none",
    }
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxSpec {
    /// The profile that it was made of; absent when it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How the workspace is shared. What may be written is `write` alone.
    pub filesystem: FileSystem,
    /// Everything that may be written: these paths, and what is below them.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub write: Vec<PathBuf>,
    /// Everything that may be read, besides `write`; absent: everything but `hide`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub read: Option<Vec<PathBuf>>,
    /// Nothing of these paths is read or written, unless a deeper path of `write` allows it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub hide: Vec<PathBuf>,
    /// Which network it has.
    pub network: Network,
}

/// What of the machine enforces it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Layers {
    /// The version of Landlock's interface whose rights are used; absent without Landlock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landlock: Option<u32>,
    /// The program bubblewrap, absolute; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub bubblewrap: Option<PathBuf>,
}

/// A sandbox that a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// What it allows.
    #[serde(flatten)]
    pub spec: SandboxSpec,
    /// What enforces it.
    pub layers: Layers,
}

impl SandboxSpec {
    /// The first hidden path that lies in a path that may be written, with that one.
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
    /// The names of the layers, as they are shown.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let landlock = self.landlock.is_some().then_some("landlock");
        landlock.into_iter().chain(self.bubblewrap.is_some().then_some("bubblewrap"))
    }
}
