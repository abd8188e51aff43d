//! Which paths a rule is about. Pure but for [`real_path`], the one look at the file system.

use std::path::{Component, Path, PathBuf};

use super::glob::{self, Fits};
use super::tool::Kind;

/// What paths in rules are about, all absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The workspace: relative patterns are about paths in it.
    pub workspace: PathBuf,
    /// Where the agent works: relative paths in calls are from here.
    pub cwd: PathBuf,
    /// The home, for `~/` and `$HOME/`.
    pub home: Option<PathBuf>,
}

/// A path in one spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Below the workspace, without a slash in front.
    pub(super) relative: Option<String>,
    /// The whole.
    pub(super) absolute: String,
}

/// Folders whose files say what agents may do, or become part of their prompts.
const PROTECTED: [&str; 4] = [".agents", ".claude/agents", ".claude/skills", ".subagent"];

/// The same in the home.
const PROTECTED_AT_HOME: [&str; 5] =
    [".agents", ".claude/agents", ".claude/skills", ".config/subagent", ".subagent"];

/// A path without symbolic links, as far as it exists.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    // A link that leads nowhere leads to what is written there.
    crate::paths::end_of_links(path).unwrap_or_else(|_| crate::paths::resolve_absolute(path))
}

/// A path without `.` and `..`, as it is written.
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

impl Places {
    /// The spellings of a path: as it is written, and where it leads. Judged are all of them.
    pub(super) fn spellings(&self, path: &str, real: &dyn Fn(&Path) -> PathBuf) -> Vec<Spelling> {
        let path = without_scheme(path);
        let given = self.at_home(&path).or_else(|| self.behind_proc(&path));
        let given = given.unwrap_or_else(|| PathBuf::from(&path));
        // As it stands there: `..` after a link leads elsewhere than it looks.
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

    /// The folders whose files say what agents may do, as they are written and where they lead.
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

    /// A path that the shell opens for a command which runs in this folder.
    pub(super) fn from(cwd: Option<&str>, path: &str) -> String {
        match cwd {
            Some(cwd) if !["/", "~/", "$HOME/"].iter().any(|start| path.starts_with(start)) => {
                format!("{cwd}/{path}")
            }
            _ => path.to_owned(),
        }
    }

    /// Whether what is done there changes files that say what agents may do. With a folder all in it is moved and removed.
    pub(super) fn is_protected(&self, kind: Kind, path: &Spelling) -> bool {
        let below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let takes_along = matches!(kind, Kind::Delete | Kind::Move);
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

    /// A path through `/proc/PID/cwd` or `/proc/PID/root` as it is for the agent.
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

    /// Whether a pattern is about this path.
    pub(super) fn fits(&self, pattern: &str, path: &Spelling) -> Fits {
        let relative =
            |pattern: &str| path.relative.as_deref().is_some_and(|path| glob::matches(pattern, path));
        let yes = match self.at_home(pattern) {
            Some(pattern) => glob::matches(&pattern.to_string_lossy(), &path.absolute),
            None if pattern.starts_with('/') => glob::matches(pattern, &path.absolute),
            None if pattern.starts_with('*') => relative(pattern) || glob::matches(pattern, &path.absolute),
            None => relative(pattern.strip_prefix("./").unwrap_or(pattern)),
        };
        if yes { Fits::Yes } else { Fits::No }
    }
}

fn is_process(name: &str) -> bool {
    matches!(name, "self" | "thread-self") || name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a path means something else for each process.
pub(super) fn is_of_a_process(path: &str) -> bool {
    let process = path.strip_prefix("/proc/").and_then(|rest| rest.split('/').next());
    process.is_some_and(is_process) || path.starts_with("/dev/fd/") || path == "/dev/stdin"
}

/// The path of a `file:` address, or the path as it is.
fn without_scheme(path: &str) -> String {
    let is_address = path.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    let address = is_address.then(|| url::Url::parse(path).ok()).flatten();
    let read = address.and_then(|mut address| {
        // Clients open the file here, also if the address names a host.
        let _ = address.set_host(None);
        address.to_file_path().ok()
    });
    read.map_or_else(|| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Whether a pattern names such a folder itself.
pub(super) fn names_protected(pattern: &str) -> bool {
    PROTECTED.iter().chain(&PROTECTED_AT_HOME).any(|folder| pattern.contains(folder))
}
