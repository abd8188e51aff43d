//! Agent memory: a folder in which the agents of a definition keep notes between runs. The agent
//! controls the content, so it is hostile input: no link below the folder of a [`Scope`] is
//! followed, and only regular files are read. This module never changes a note.

mod folder;
mod git;
mod notes;
mod open;

pub use folder::{Folder, MemoryContent};
pub use notes::{MAX_NOTES_BYTES, Notes};

/// The file whose first lines become part of the first prompt.
pub const FILE: &str = "MEMORY.md";
/// The default of `memoryLines`.
pub const DEFAULT_LINES: u64 = 200;
/// The maximum of `memoryLines`. [`MAX_NOTES_BYTES`] applies as well.
pub const MAX_LINES: u64 = 10_000;

/// The runs that share a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All runs of the user, in all workspaces.
    User,
    /// All runs in this workspace. The folder may be committed.
    Project,
    /// All runs in this workspace. Git ignores the folder.
    Local,
}

impl Scope {
    /// All scopes, in search order.
    pub const ALL: [Self; 3] = [Self::User, Self::Project, Self::Local];

    /// The word in a definition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }

    /// Parses the word of a scope.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// The memory settings of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySettings {
    /// The key `memory`: the scope.
    pub scope: Scope,
    /// The key `memoryLines`: maximum number of lines in a prompt.
    pub lines: u64,
}
