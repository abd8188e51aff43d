//! Finds the workspace of a command and its state dir. Only reads the file system.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::markers::{self, CONFIG_FILE, CONTROLLER_FILE, DOT_SUBAGENT, STATE};
use crate::paths;

const DATABASE: &str = "state.db";

/// A workspace with its state. All paths are absolute, without symbolic links as far as they exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The folder that owns controllers and workers; also the `workspaceKey`.
    pub root: PathBuf,
    /// The state dir of the daemon; may not exist yet.
    pub state_dir: PathBuf,
    /// The database in the state dir; may not exist yet.
    pub db_path: PathBuf,
    /// What is known of a workspace on another host; `None` for those of this machine.
    pub there: Option<StateThere>,
}

/// What a command knows of a workspace whose files it cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateThere {
    /// Whether anything was ever started in it.
    pub is_used: bool,
    /// Id of the controller that the folder names.
    pub controller_id: Option<String>,
}

impl Workspace {
    /// Finds the workspace of a command with this `--cwd`.
    ///
    /// The root is the nearest folder upward from `--cwd` (default: the caller's working directory) with a
    /// `.subagent` of ours (config file, controller hint or state), else the nearest one with `.git`. The
    /// state dir is `SUBAGENT_STATE_DIR`, or `.subagent/state` in the root.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an invalid `--cwd`. `WORKSPACE_ROOT_NOT_FOUND` without a root, unless `--cwd`
    /// or `SUBAGENT_STATE_DIR` is set; then the root is the start folder.
    pub fn find(typed_cwd: Option<&Path>, env: &Environment) -> Result<Self, ConfigError> {
        let start = resolve_cwd(typed_cwd, env)?;
        let moved = env.var("SUBAGENT_STATE_DIR").map(|dir| paths::resolve(Path::new(dir), env));
        let root = match root_above(&start) {
            Some(root) => root.to_owned(),
            None if named(typed_cwd).is_some() || moved.is_some() => start,
            None => return Err(ConfigError::WorkspaceRootNotFound { cwd: start }),
        };
        let state_dir = match moved {
            Some(dir) => dir,
            None => paths::resolve_absolute(&root.join(DOT_SUBAGENT).join(STATE)),
        };
        let db_path = state_dir.join(DATABASE);
        Ok(Self { root, state_dir, db_path, there: None })
    }
}

/// Returns the working directory of a command: `--cwd` (`INVALID_ARGUMENT` if it is not a directory), or
/// the caller's if it is absent or empty. Absolute and without symbolic links.
pub fn resolve_cwd(typed: Option<&Path>, env: &Environment) -> Result<PathBuf, ConfigError> {
    let Some(typed) = named(typed) else {
        return Ok(paths::resolve_absolute(&env.cwd));
    };
    let cwd = env.cwd.join(paths::expand_home(typed, env));
    paths::directory(&cwd).map_err(|cause| ConfigError::CwdUnusable { cwd, cause })
}

/// Returns the path unless it is empty.
fn named(typed: Option<&Path>) -> Option<&Path> {
    typed.filter(|path| !path.as_os_str().is_empty())
}

fn root_above(start: &Path) -> Option<&Path> {
    let ours = [CONFIG_FILE, CONTROLLER_FILE, STATE].map(|name| Path::new(DOT_SUBAGENT).join(name));
    markers::nearest(start, &ours).or_else(|| markers::nearest(start, &[PathBuf::from(".git")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct WorkspaceFixture {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    impl WorkspaceFixture {
        fn new(files: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let base = dir.path().canonicalize().unwrap();
            fs::create_dir_all(base.join("ws/sub/deep")).unwrap();
            for file in files {
                let path = base.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            Self { _dir: dir, base }
        }

        fn env(&self, cwd: &str, vars: &[(&str, &str)]) -> Environment {
            Environment::new(
                vars.iter().map(|(name, value)| (name.into(), value.into())),
                self.base.join(cwd),
            )
        }

        fn root(&self, typed: Option<&str>, cwd: &str) -> PathBuf {
            let found = Workspace::find(typed.map(Path::new), &self.env(cwd, &[])).unwrap();
            assert_eq!(found.state_dir, found.root.join(".subagent/state"));
            assert_eq!(found.db_path, found.state_dir.join("state.db"));
            found.root.strip_prefix(&self.base).unwrap().to_owned()
        }
    }

    #[test]
    fn each_file_of_ours_marks_a_root() {
        for marker in ["ws/.subagent/config.yaml", "ws/.subagent/controller.json", "ws/.subagent/state/x"] {
            let place = WorkspaceFixture::new(&[marker]);
            assert_eq!(place.root(None, "ws/sub/deep"), Path::new("ws"), "{marker}");
            assert_eq!(place.root(Some("deep"), "ws/sub"), Path::new("ws"), "{marker}");
        }
    }

    #[test]
    fn git_marks_a_root_as_file_or_folder_but_ours_beats_a_nearer_git() {
        assert_eq!(WorkspaceFixture::new(&["ws/.git"]).root(None, "ws/sub"), Path::new("ws"));
        assert_eq!(WorkspaceFixture::new(&["ws/.git/HEAD"]).root(None, "ws/sub"), Path::new("ws"));
        let both = WorkspaceFixture::new(&["ws/.subagent/config.yaml", "ws/sub/.git"]);
        assert_eq!(both.root(None, "ws/sub/deep"), Path::new("ws"));
        let nested = WorkspaceFixture::new(&["ws/.subagent/config.yaml", "ws/sub/.subagent/config.yaml"]);
        assert_eq!(nested.root(None, "ws/sub/deep"), Path::new("ws/sub"));
    }

    #[test]
    fn an_empty_dot_subagent_marks_nothing() {
        let place = WorkspaceFixture::new(&["ws/.git", "ws/sub/.subagent/notes.txt"]);
        assert_eq!(place.root(None, "ws/sub/deep"), Path::new("ws"));
    }

    #[test]
    fn without_a_marker_only_a_typed_folder_is_a_root() {
        let place = WorkspaceFixture::new(&[]);
        let error = Workspace::find(None, &place.env("ws", &[])).unwrap_err();
        assert_eq!(error.code(), "WORKSPACE_ROOT_NOT_FOUND");
        assert_eq!(error.details()["cwd"], place.base.join("ws").to_str().unwrap());
        assert_eq!(place.root(Some("."), "ws/sub"), Path::new("ws/sub"));
        assert_eq!(place.root(Some("sub/../sub"), "ws"), Path::new("ws/sub"));
    }

    #[test]
    fn the_state_dir_variable_beats_all() {
        let place = WorkspaceFixture::new(&["ws/.git"]);
        let vars = [("SUBAGENT_STATE_DIR", "elsewhere/state")];
        let found = Workspace::find(Some(Path::new("sub")), &place.env("ws", &vars)).unwrap();
        assert_eq!(found.root, place.base.join("ws"));
        assert_eq!(found.state_dir, place.base.join("ws/elsewhere/state"));
        assert_eq!(found.db_path, place.base.join("ws/elsewhere/state/state.db"));
        let empty = Workspace::find(None, &place.env("ws", &[("SUBAGENT_STATE_DIR", "")])).unwrap();
        assert_eq!(empty.state_dir, place.base.join("ws/.subagent/state"));
    }

    #[test]
    fn the_state_dir_variable_stands_in_for_a_root() {
        let place = WorkspaceFixture::new(&[]);
        let found = Workspace::find(None, &place.env("ws", &[("SUBAGENT_STATE_DIR", "/s")])).unwrap();
        assert_eq!((found.root, found.state_dir), (place.base.join("ws"), PathBuf::from("/s")));
    }

    #[test]
    fn links_are_resolved() {
        let place = WorkspaceFixture::new(&["ws/.git"]);
        symlink(place.base.join("ws/sub"), place.base.join("link")).unwrap();
        fs::create_dir_all(place.base.join("disk")).unwrap();
        fs::create_dir_all(place.base.join("ws/.subagent")).unwrap();
        symlink(place.base.join("disk"), place.base.join("ws/.subagent/state")).unwrap();
        let found = Workspace::find(Some(Path::new("link")), &place.env("", &[])).unwrap();
        assert_eq!(found.root, place.base.join("ws"));
        assert_eq!(found.state_dir, place.base.join("disk"));
    }

    #[test]
    fn a_typed_cwd_must_be_a_folder() {
        let place = WorkspaceFixture::new(&["ws/file"]);
        for wrong in ["none", "file"] {
            let error = Workspace::find(Some(Path::new(wrong)), &place.env("ws", &[])).unwrap_err();
            assert_eq!(error.code(), "INVALID_ARGUMENT");
            assert_eq!(error.details()["cwd"], place.base.join("ws").join(wrong).to_str().unwrap());
        }
    }
}
