//! The folder of one agent memory: its path, creation, reading and clearing.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::git::MemoryRepository;
use super::notes::{MAX_NOTES_BYTES, Notes};
use super::open::{self, Make};
use super::{FILE, Scope};
use crate::agents;
use crate::environment::Environment;
use crate::paths;

/// Maximum size of a `MEMORY.md` that is shown or counted, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// The git ignore pattern for [`Scope::Local`]; it matches in any subfolder of the repository.
const IGNORED: &str = "**/.agents/agent-memory-local/";

/// The memory of one agent in one scope. The folder may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    agent: String,
    scope: Scope,
    /// The parent of the scope's folders: absolute, without links, and outside of the agent's control.
    root: PathBuf,
}

/// The content of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryContent {
    /// Content of `MEMORY.md`; empty if it is missing. Invalid UTF-8 is replaced.
    pub text: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Modification time; `None` if the file is missing.
    pub changed: Option<SystemTime>,
}

impl Folder {
    /// Returns the memory of an agent. A git worktree uses the memory of its main work tree.
    ///
    /// # Errors
    /// A sentence: an invalid name, no home, or a path that a prompt cannot contain.
    pub fn of(scope: Scope, agent: &str, workspace: &Path, env: &Environment) -> Result<Self, String> {
        if !agents::is_name(agent) {
            return Err(format!("`{agent}` is not the name of an agent"));
        }
        let root = root(scope, workspace, env)?;
        match root.to_str().is_some_and(|path| !path.contains(char::is_control)) {
            true => Ok(Self { agent: agent.to_owned(), scope, root }),
            false => Err(format!("the path {} is not plain text; rename the folder", root.display())),
        }
    }

    /// Returns all existing memories, by scope and name. The user scope is empty without a home.
    ///
    /// # Errors
    /// A sentence: a memory folder is a link or unreadable.
    pub fn all(workspace: &Path, env: &Environment) -> Result<Vec<Self>, String> {
        let mut found = Vec::new();
        for scope in Scope::ALL {
            let Ok(root) = root(scope, workspace, env) else { continue };
            let names = names(scope);
            let above = root.join(names.iter().collect::<PathBuf>());
            let failed = |error: io::Error| format!("cannot read {}: {error}", above.display());
            if open::folder(&root, names, Make::Nothing).map_err(failed)?.is_none() {
                continue;
            }
            let mut agents = Vec::new();
            for entry in fs::read_dir(&above).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let is_folder = entry.file_type().map_err(failed)?.is_dir();
                agents.extend(entry.file_name().into_string().ok().filter(|_| is_folder));
            }
            agents.sort_unstable();
            found.extend(agents.iter().filter_map(|agent| Self::of(scope, agent, workspace, env).ok()));
        }
        Ok(found)
    }

    /// Name of the agent that owns it.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The scope of the memory.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Path of the folder: absolute and without links.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.names().fold(self.root.clone(), |path, name| path.join(name))
    }

    /// Path of its `MEMORY.md`.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.path().join(FILE)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        names(self.scope).iter().copied().chain([self.agent.as_str()])
    }

    /// Creates the folder if it is missing. In scope `local`, adds it to git's ignored files.
    ///
    /// # Errors
    /// A sentence: a link in the path, or the error of the system.
    pub fn make(&self) -> Result<(), String> {
        self.open(Make::Missing)?;
        let repository = Some(&self.root).filter(|_| self.scope == Scope::Local);
        let repository = repository.and_then(|root| MemoryRepository::around(root));
        repository.map_or(Ok(()), |repository| repository.ignore(IGNORED)).map_err(|error| {
            format!("git cannot ignore {}: .git/info/exclude: {error}", self.path().display())
        })
    }

    /// Returns the notes for a prompt: at most `lines` lines and [`MAX_NOTES_BYTES`] bytes.
    ///
    /// # Errors
    /// A sentence: not a regular file, or the error of the system.
    pub fn notes(&self, lines: u64) -> Result<Notes, String> {
        let bytes = self.read(MAX_NOTES_BYTES + 1)?.map(|(bytes, _)| bytes);
        Ok(Notes::of(&bytes.unwrap_or_default(), lines))
    }

    /// Returns the content; `None` if the folder is missing.
    ///
    /// # Errors
    /// Those of [`Self::notes`], and a file of more than 16 MiB.
    pub fn entry(&self) -> Result<Option<MemoryContent>, String> {
        match self.read(MAX_TEXT_BYTES + 1)? {
            Some((bytes, _)) if bytes.len() > MAX_TEXT_BYTES => {
                Err(format!("{} has more than 16 MiB; shorten it", self.file().display()))
            }
            Some((bytes, metadata)) => Ok(Some(MemoryContent {
                text: String::from_utf8_lossy(&bytes).into_owned(),
                bytes: metadata.len(),
                changed: metadata.modified().ok(),
            })),
            None => {
                let nothing = MemoryContent { text: String::new(), bytes: 0, changed: None };
                Ok(self.open(Make::Nothing)?.map(|_| nothing))
            }
        }
    }

    /// Deletes the content but not the folder, because a running agent continues to write there. Returns
    /// the number of files and folders in it.
    ///
    /// # Errors
    /// A sentence: a link in the path, or the error of the system. Files that were already deleted stay
    /// deleted.
    pub fn clear(&self) -> Result<usize, String> {
        if self.open(Make::Nothing)?.is_none() {
            return Ok(0);
        }
        let path = self.path();
        let failed = |error: io::Error| format!("cannot clear {}: {error}", path.display());
        let mut removed = 0;
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Neither call follows links.
            match entry.file_type().map_err(failed)?.is_dir() {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            }
            .map_err(failed)?;
            removed += 1;
        }
        Ok(removed)
    }

    fn open(&self, make: Make) -> Result<Option<OwnedFd>, String> {
        let names: Vec<&str> = self.names().collect();
        open::folder(&self.root, &names, make)
            .map_err(|error| format!("the folder {} cannot be used: {error}", self.path().display()))
    }

    fn read(&self, most: usize) -> Result<Option<(Vec<u8>, fs::Metadata)>, String> {
        let failed = |error: io::Error| format!("{} cannot be read: {error}", self.file().display());
        let Some(folder) = self.open(Make::Nothing)? else { return Ok(None) };
        let Some(file) = open::file(&folder, FILE).map_err(failed)? else { return Ok(None) };
        let bytes = open::first_bytes(&file, most).map_err(failed)?;
        Ok(Some((bytes, file.metadata().map_err(failed)?)))
    }
}

/// Returns the folder names of a scope below its root.
const fn names(scope: Scope) -> &'static [&'static str] {
    match scope {
        Scope::User => &["agent-memory"],
        Scope::Project => &[".agents", "agent-memory"],
        Scope::Local => &[".agents", "agent-memory-local"],
    }
}

/// Returns the parent of a scope's folders.
fn root(scope: Scope, workspace: &Path, env: &Environment) -> Result<PathBuf, String> {
    if scope != Scope::User {
        let workspace = paths::resolve_absolute(workspace);
        let main = MemoryRepository::around(&workspace).and_then(|repository| repository.in_main(&workspace));
        return Ok(main.unwrap_or(workspace));
    }
    let config = env.var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let config = config.or_else(|| Some(env.home.as_ref()?.join(".config")));
    let config = config.ok_or("there is no folder for the memory of the user: HOME is not set")?;
    Ok(paths::resolve_absolute(&config.join("subagent")))
}

#[cfg(test)]
mod tests;
