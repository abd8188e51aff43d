//! Agent memory: the folder of a definition in which its agents keep notes for their next run.
//!
//! The folder and what is in it belong to the agent, and so count as hostile: no link is followed below the folder that
//! [`Scope`] names, and nothing but a regular file is read. Nothing here changes a note.

mod folder;
mod git;
mod notes;
mod open;

pub use folder::{Entry, Folder};
pub use notes::{MAX_NOTES_BYTES, Notes};

/// The file whose first lines become part of the first prompt.
pub const FILE: &str = "MEMORY.md";
/// How many of its lines without `memoryLines`.
pub const DEFAULT_LINES: u64 = 200;
/// The largest `memoryLines`. [`MAX_NOTES_BYTES`] counts as well.
pub const MAX_LINES: u64 = 10_000;

/// Whose runs share a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those of the user, in all workspaces.
    User,
    /// Those in this workspace. The folder may be committed.
    Project,
    /// Those in this workspace. Git ignores the folder.
    Local,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::User, Self::Project, Self::Local];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }

    /// The scope that a word stands for.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// What a definition says of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// `memory`.
    pub scope: Scope,
    /// `memoryLines`.
    pub lines: u64,
}
