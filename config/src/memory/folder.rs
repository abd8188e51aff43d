//! The folder of one memory: where it is, how it is made, read and emptied.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::git::Repository;
use super::notes::{MAX_NOTES_BYTES, Notes};
use super::open::{self, Make};
use super::{FILE, Scope};
use crate::agents;
use crate::environment::Environment;
use crate::paths;

/// The longest `MEMORY.md` that is shown or counted, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// What git ignores of [`Scope::Local`], wherever the workspace is in its repository.
const IGNORED: &str = "**/.agents/agent-memory-local/";

/// The memory of one agent in one scope; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    agent: String,
    scope: Scope,
    /// What is above the folders of the scope: absolute, without links, and not the agent's to change.
    root: PathBuf,
}

/// What is in a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `MEMORY.md`; empty without one. Bytes that are no text are replaced.
    pub text: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was changed; none without one.
    pub changed: Option<SystemTime>,
}

impl Folder {
    /// The memory of an agent with this name. Of a git worktree it is that of the main work tree.
    ///
    /// # Errors
    /// A sentence: a name that no definition can have, no home, a path that prompts cannot hold.
    pub fn of(scope: Scope, agent: &str, workspace: &Path, env: &Environment) -> Result<Self, String> {
        if !agents::is_name(agent) {
            return Err(format!("`{agent}` is no name of an agent"));
        }
        let root = root(scope, workspace, env)?;
        match root.to_str().is_some_and(|path| !path.contains(char::is_control)) {
            true => Ok(Self { agent: agent.to_owned(), scope, root }),
            false => Err(format!("the path {} is not plain text; rename the folder", root.display())),
        }
    }

    /// All memories that there are, by scope and name.
    ///
    /// # Errors
    /// A sentence: a folder of memories that is a link or cannot be read. A scope without a home has none.
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

    /// Whose it is.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Its scope.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Where it is: absolute and without links.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.names().fold(self.root.clone(), |path, name| path.join(name))
    }

    /// Where its `MEMORY.md` is.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.path().join(FILE)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        names(self.scope).iter().copied().chain([self.agent.as_str()])
    }

    /// Makes it if it is not there, and has git ignore it if its scope is `local`.
    ///
    /// # Errors
    /// A sentence: a link in the way, or what the system says.
    pub fn make(&self) -> Result<(), String> {
        self.open(Make::Missing)?;
        let repository = Some(&self.root).filter(|_| self.scope == Scope::Local);
        let repository = repository.and_then(|root| Repository::around(root));
        repository.map_or(Ok(()), |repository| repository.ignore(IGNORED)).map_err(|error| {
            format!("git cannot be told to ignore {}: .git/info/exclude: {error}", self.path().display())
        })
    }

    /// Its notes for a prompt: at most `lines` lines and [`MAX_NOTES_BYTES`] bytes.
    ///
    /// # Errors
    /// A sentence: a link or anything but a regular file, or what the system says.
    pub fn notes(&self, lines: u64) -> Result<Notes, String> {
        let bytes = self.read(MAX_NOTES_BYTES + 1)?.map(|(bytes, _)| bytes);
        Ok(Notes::of(&bytes.unwrap_or_default(), lines))
    }

    /// What is in it; none if it is not there.
    ///
    /// # Errors
    /// As [`Self::notes`]; a file of more than 16 MiB.
    pub fn entry(&self) -> Result<Option<Entry>, String> {
        match self.read(MAX_TEXT_BYTES + 1)? {
            Some((bytes, _)) if bytes.len() > MAX_TEXT_BYTES => {
                Err(format!("{} has more than 16 MiB; shorten it", self.file().display()))
            }
            Some((bytes, metadata)) => Ok(Some(Entry {
                text: String::from_utf8_lossy(&bytes).into_owned(),
                bytes: metadata.len(),
                changed: metadata.modified().ok(),
            })),
            None => {
                let nothing = Entry { text: String::new(), bytes: 0, changed: None };
                Ok(self.open(Make::Nothing)?.map(|_| nothing))
            }
        }
    }

    /// Removes everything in it, and keeps the folder: an agent that runs goes on writing there. Returns how many files
    /// and folders were in it.
    ///
    /// # Errors
    /// A sentence: a link in the way, or what the system says. What was removed by then stays removed.
    pub fn clear(&self) -> Result<usize, String> {
        if self.open(Make::Nothing)?.is_none() {
            return Ok(0);
        }
        let path = self.path();
        let failed = |error: io::Error| format!("cannot clear {}: {error}", path.display());
        let mut removed = 0;
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Neither of them follows a link.
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

/// The folders of a scope below its root.
const fn names(scope: Scope) -> &'static [&'static str] {
    match scope {
        Scope::User => &["agent-memory"],
        Scope::Project => &[".agents", "agent-memory"],
        Scope::Local => &[".agents", "agent-memory-local"],
    }
}

/// What is above the folders of a scope.
fn root(scope: Scope, workspace: &Path, env: &Environment) -> Result<PathBuf, String> {
    if scope != Scope::User {
        let workspace = paths::resolve_absolute(workspace);
        let main = Repository::around(&workspace).and_then(|repository| repository.in_main(&workspace));
        return Ok(main.unwrap_or(workspace));
    }
    let config = env.var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let config = config.or_else(|| Some(env.home.as_ref()?.join(".config")));
    let config = config.ok_or("there is no folder for the memory of the user: HOME is not set")?;
    Ok(paths::resolve_absolute(&config.join("subagent")))
}

#[cfg(test)]
mod tests;
