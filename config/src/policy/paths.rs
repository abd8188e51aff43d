//! Matches paths with rules. Pure except for [`real_path`], which reads the file system.

use std::path::{Component, Path, PathBuf};

use super::glob::{self, MatchResult};
use super::tool::ToolKind;

/// The base folders of relative paths, all absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaseFolders {
    /// The workspace: the base of relative patterns.
    pub workspace: PathBuf,
    /// The working folder of the agent: the base of relative paths in calls.
    pub cwd: PathBuf,
    /// The home, for `~/` and `$HOME/`.
    pub home: Option<PathBuf>,
}

/// One spelling of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spelling {
    /// The path relative to the workspace, without a leading slash; `None` outside of it.
    pub(super) relative: Option<String>,
    /// The absolute path without `.` and `..`.
    pub(super) absolute: String,
}

/// Folders whose files define permissions or become part of prompts.
pub const PROTECTED: [&str; 4] = [".agents", ".claude/agents", ".claude/skills", ".subagent"];

/// Such folders in the home.
const PROTECTED_AT_HOME: [&str; 5] =
    [".agents", ".claude/agents", ".claude/skills", ".config/subagent", ".subagent"];

/// Resolves symbolic links of a path, as far as it exists.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    // A dangling link resolves to its target.
    crate::paths::end_of_links(path).unwrap_or_else(|_| crate::paths::resolve_absolute(path))
}

/// Removes `.` and `..` textually.
pub(super) fn lexical(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                found.pop();
            }
            other => found.push(other),
        }
    }
    found
}

impl BaseFolders {
    /// Returns all spellings of a path: as written, and with links resolved. All of them are judged.
    pub(super) fn spellings(&self, path: &str, real: &dyn Fn(&Path) -> PathBuf) -> Vec<Spelling> {
        let path = without_scheme(path);
        let given = self.at_home(&path).or_else(|| self.behind_proc(&path));
        let given = given.unwrap_or_else(|| PathBuf::from(&path));
        // Kept as written: `..` after a link leads elsewhere than the text shows.
        let absolute = self.cwd.join(given);
        let written = lexical(&absolute);
        let mut found = vec![self.spelling(&written, &self.workspace)];
        let led = real(&absolute);
        let workspace = real(&self.workspace);
        for spelling in [self.spelling(&led, &workspace), self.spelling(&real(&written), &workspace)] {
            if !found.contains(&spelling) {
                found.push(spelling);
            }
        }
        found
    }

    /// Returns the folders whose files define permissions, as written and with links resolved.
    #[must_use]
    pub fn protected(&self, real: &dyn Fn(&Path) -> PathBuf) -> Vec<PathBuf> {
        let workspace = real(&self.workspace);
        let mut found = Vec::new();
        for folder in PROTECTED {
            let written = self.workspace.join(folder);
            found.extend([workspace.join(folder), real(&written), written]);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns a path that the shell opens for a command in this folder.
    pub(super) fn from(cwd: Option<&str>, path: &str) -> String {
        match cwd {
            Some(cwd) if !["/", "~/", "$HOME/"].iter().any(|start| path.starts_with(start)) => {
                format!("{cwd}/{path}")
            }
            _ => path.to_owned(),
        }
    }

    /// Whether the action changes files that define permissions. Moving or deleting a folder affects all
    /// files in it.
    pub(super) fn is_protected(&self, kind: ToolKind, path: &Spelling) -> bool {
        let below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let takes_along = matches!(kind, ToolKind::Delete | ToolKind::Move);
        let guards = |folder: &str, path: &str| below(path, folder) || (takes_along && below(folder, path));
        let at_home = |home: &Path| {
            let inside = |folder: &&str| guards(&home.join(folder).to_string_lossy(), &path.absolute);
            PROTECTED_AT_HOME.iter().any(inside)
        };
        if !kind.changes_files() {
            return false;
        }
        if self.home.as_deref().is_some_and(at_home) {
            return true;
        }
        match path.relative.as_deref() {
            Some("") => takes_along,
            Some(path) => PROTECTED.iter().any(|folder| guards(folder, path)),
            None => takes_along && self.workspace.starts_with(&path.absolute),
        }
    }

    /// Resolves a path through `/proc/PID/cwd` or `/proc/PID/root` for the agent.
    fn behind_proc(&self, path: &str) -> Option<PathBuf> {
        let mut parts = Path::new(path).components().skip(1).filter_map(|part| part.as_os_str().to_str());
        let of_process =
            path.starts_with('/') && parts.next() == Some("proc") && parts.next().is_some_and(is_process);
        let start = match parts.next().filter(|_| of_process)? {
            "cwd" => &self.cwd,
            "root" => Path::new("/"),
            _ => return None,
        };
        Some(start.join(parts.collect::<PathBuf>()))
    }

    fn spelling(&self, path: &Path, workspace: &Path) -> Spelling {
        let relative = path.strip_prefix(workspace).ok().map(|rest| rest.to_string_lossy().into_owned());
        Spelling { relative, absolute: path.to_string_lossy().into_owned() }
    }

    fn at_home(&self, path: &str) -> Option<PathBuf> {
        let rest = ["~", "$HOME"].iter().find_map(|home| path.strip_prefix(home))?;
        let rest = if rest.is_empty() { "" } else { rest.strip_prefix('/')? };
        Some(self.home.as_deref()?.join(rest))
    }

    /// Matches a pattern against a path.
    pub(super) fn fits(&self, pattern: &str, path: &Spelling) -> MatchResult {
        let relative =
            |pattern: &str| path.relative.as_deref().is_some_and(|path| glob::matches(pattern, path));
        let yes = match self.at_home(pattern) {
            Some(pattern) => glob::matches(&pattern.to_string_lossy(), &path.absolute),
            None if pattern.starts_with('/') => glob::matches(pattern, &path.absolute),
            None if pattern.starts_with('*') => relative(pattern) || glob::matches(pattern, &path.absolute),
            None => relative(pattern.strip_prefix("./").unwrap_or(pattern)),
        };
        if yes { MatchResult::Yes } else { MatchResult::No }
    }
}

fn is_process(name: &str) -> bool {
    matches!(name, "self" | "thread-self") || name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the meaning of a path depends on the process.
pub(super) fn is_of_a_process(path: &str) -> bool {
    let process = path.strip_prefix("/proc/").and_then(|rest| rest.split('/').next());
    process.is_some_and(is_process) || path.starts_with("/dev/fd/") || path == "/dev/stdin"
}

/// Returns the path of a `file:` URL; other paths are unchanged.
fn without_scheme(path: &str) -> String {
    file_of_url(path).unwrap_or_else(|| path.to_owned())
}

/// Returns the path of a `file:` URL, as clients read one: without blanks around it, and without its host.
pub(super) fn file_of_url(text: &str) -> Option<String> {
    let address = url::Url::parse(text).ok().filter(|address| address.scheme() == "file")?;
    // Clients open the local file even if the URL names a host.
    let local = url::Url::parse(&format!("file://{}", address.path())).ok()?;
    local.to_file_path().ok().map(|path| path.to_string_lossy().into_owned())
}

pub(super) fn names_protected(pattern: &str) -> bool {
    PROTECTED.iter().chain(&PROTECTED_AT_HOME).any(|folder| pattern.contains(folder))
}
