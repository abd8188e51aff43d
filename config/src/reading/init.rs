//! `config init`: selects the file and writes the template.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::markers::{CONFIG_FILE, DOT_SUBAGENT};
use crate::template::TEMPLATE;
use crate::write::{Replace, atomically};
use crate::{discovery, paths, workspace};

/// The projects to which a config file applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitScope {
    /// All projects of this user.
    User,
    /// Only the project of this folder.
    Project,
}

impl InitScope {
    /// Parses `--scope`: `user` or `project`. Case and surrounding blanks are ignored. Else
    /// `INVALID_ARGUMENT`.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        match text.trim().to_lowercase().as_str() {
            "user" => Ok(Self::User),
            "project" => Ok(Self::Project),
            _ => Err(ConfigError::ScopeUnknown { scope: text.to_owned() }),
        }
    }

    /// The word in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// The action for an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Fail with `CONFIG_ALREADY_EXISTS` (default).
    Keep,
    /// Overwrite the file (`--force`).
    Replace,
}

/// The result of `config init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initialized {
    /// The file, absolute and without symbolic links.
    pub path: PathBuf,
    /// The scope of the request.
    pub scope: InitScope,
    /// Whether a file existed before.
    pub overwritten: bool,
}

/// Returns the file for `config init`: `--path`; else for a project `.subagent/config.yaml` in exactly
/// `--cwd` (default: the caller's working directory); else for the user `SUBAGENT_CONFIG` or
/// `~/.config/subagent/config.yaml`.
pub fn target(
    path: Option<&Path>,
    scope: InitScope,
    typed_cwd: Option<&Path>,
    env: &Environment,
) -> Result<PathBuf, ConfigError> {
    if let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) {
        return Ok(paths::resolve(path, env));
    }
    match scope {
        InitScope::Project => {
            let cwd = workspace::resolve_cwd(typed_cwd, env)?;
            Ok(paths::resolve_absolute(&cwd.join(DOT_SUBAGENT).join(CONFIG_FILE)))
        }
        InitScope::User => discovery::variable_path(env)
            .or_else(|| discovery::user_path(env))
            .ok_or(ConfigError::HomeUnknown),
    }
}

/// Writes the template to a [`target`] atomically and creates its parents. A replaced file keeps its
/// permissions. If the file is a symbolic link, its target is written.
pub fn init(path: PathBuf, scope: InitScope, existing: Existing) -> Result<Initialized, ConfigError> {
    write(path, scope, existing, TEMPLATE)
}

/// Returns the template with this default launcher and without the built-in launchers.
#[must_use]
pub fn with_default(launcher: &str) -> String {
    const AFTER_LAUNCHERS: &str = "# What agents may do without asking you";
    let rest = TEMPLATE.find(AFTER_LAUNCHERS).and_then(|at| TEMPLATE.get(at..)).unwrap_or_default();
    // JSON is valid YAML, and quotes every name.
    let named = format!("  launcher: {}\n", Value::from(launcher));
    format!(
        "# Configuration of subagent; `subagent config show --origin` shows what counts, `subagent config check` problems.\n\
         # Built-in launchers need no entry here: `subagent launcher list` shows them.\n\n{}",
        rest.replace("  launcher: codex\n", &named)
    )
}

/// Writes another text in the same way.
pub fn write(
    mut path: PathBuf,
    scope: InitScope,
    existing: Existing,
    text: &str,
) -> Result<Initialized, ConfigError> {
    if existing == Existing::Replace {
        path = match paths::end_of_links(&path) {
            Ok(end) => end,
            Err(cause) => return Err(ConfigError::ConfigUnwritable { path, cause }),
        };
    }
    // Examines the link itself: a dangling link is also a file of the user.
    let before = path.symlink_metadata().ok();
    if before.is_some() && existing == Existing::Keep {
        return Err(ConfigError::ConfigExists { path });
    }
    let mode = before
        .as_ref()
        .filter(|found| found.is_file())
        .map_or(0o666, |found| found.permissions().mode() & 0o777);
    let replace = match existing {
        Existing::Keep => Replace::No,
        Existing::Replace => Replace::Yes,
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if let Err(cause) = std::fs::create_dir_all(folder) {
        return Err(ConfigError::ConfigUnwritable { path, cause });
    }
    match atomically(&path, text.as_bytes(), mode, replace) {
        Ok(()) => Ok(Initialized { path, scope, overwritten: before.is_some() }),
        // Another process created the file first.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Err(ConfigError::ConfigExists { path }),
        Err(cause) => Err(ConfigError::ConfigUnwritable { path, cause }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::symlink;

    struct InitFixture {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    impl InitFixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let base = dir.path().canonicalize().unwrap();
            fs::create_dir_all(base.join("ws/sub")).unwrap();
            Self { _dir: dir, base }
        }

        fn env(&self, variable: &str) -> Environment {
            let vars =
                [("HOME".into(), self.base.join("home").into()), ("SUBAGENT_CONFIG".into(), variable.into())];
            Environment::new(vars, self.base.join("ws"))
        }

        fn target(&self, path: Option<&str>, scope: InitScope, cwd: Option<&str>, variable: &str) -> PathBuf {
            let found = target(path.map(Path::new), scope, cwd.map(Path::new), &self.env(variable)).unwrap();
            found.strip_prefix(&self.base).unwrap().to_owned()
        }
    }

    #[test]
    fn scopes() {
        assert_eq!(InitScope::parse(" User ").unwrap(), InitScope::User);
        assert_eq!(InitScope::parse("PROJECT").unwrap(), InitScope::Project);
        let error = InitScope::parse("global").unwrap_err();
        assert_eq!((error.code(), &error.details()["scope"]), ("INVALID_ARGUMENT", &"global".into()));
    }

    #[test]
    fn targets() {
        let place = InitFixture::new();
        let user = Path::new("home/.config/subagent/config.yaml");
        assert_eq!(place.target(Some("x.yaml"), InitScope::Project, None, "v.yaml"), Path::new("ws/x.yaml"));
        assert_eq!(
            place.target(None, InitScope::Project, None, "v.yaml"),
            Path::new("ws/.subagent/config.yaml")
        );
        assert_eq!(
            place.target(None, InitScope::Project, Some("sub"), ""),
            Path::new("ws/sub/.subagent/config.yaml")
        );
        assert_eq!(place.target(None, InitScope::User, None, "~/v.yaml"), Path::new("home/v.yaml"));
        assert_eq!(place.target(None, InitScope::User, Some("sub"), ""), user);
        let homeless = Environment::new([], place.base.join("ws"));
        assert_eq!(target(None, InitScope::User, None, &homeless).unwrap_err().code(), "INVALID_ARGUMENT");
    }

    #[test]
    fn what_is_written_is_what_is_loaded() {
        let place = InitFixture::new();
        let path = target(None, InitScope::User, None, &place.env("")).unwrap();
        let done = init(path.clone(), InitScope::User, Existing::Keep).unwrap();
        assert_eq!(done, Initialized { path: path.clone(), scope: InitScope::User, overwritten: false });
        let loaded = discovery::load(None, None, &place.env("")).unwrap();
        assert_eq!((loaded.path, loaded.loaded), (path, true));
        assert_eq!(loaded.config.defaults.launcher.as_deref(), Some("codex"));
    }

    #[test]
    fn the_short_file_has_the_roles_and_the_default() {
        let text = with_default("a: b");
        let config = crate::file::parse(Path::new("c.yaml"), text.as_bytes()).unwrap();
        assert_eq!(config.defaults.launcher.as_deref(), Some("a: b"));
        assert!(config.launchers.is_empty() && config.role_hints.contains_key("reviewer"));
    }

    #[test]
    fn an_existing_file_is_kept_unless_forced() {
        let place = InitFixture::new();
        let path = place.base.join("c.yaml");
        fs::write(&path, "mine").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let error = init(path.clone(), InitScope::User, Existing::Keep).unwrap_err();
        assert_eq!(error.code(), "CONFIG_ALREADY_EXISTS");
        assert_eq!(error.details()["path"], path.to_str().unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert!(init(path.clone(), InitScope::User, Existing::Replace).unwrap().overwritten);
        assert_eq!(fs::read_to_string(&path).unwrap(), TEMPLATE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_linked_config_is_replaced_where_it_really_is() {
        let place = InitFixture::new();
        fs::write(place.base.join("dotfile.yaml"), "old").unwrap();
        symlink(place.base.join("dotfile.yaml"), place.base.join("ws/c.yaml")).unwrap();
        let path = target(Some(Path::new("c.yaml")), InitScope::User, None, &place.env("")).unwrap();
        init(path, InitScope::User, Existing::Replace).unwrap();
        assert!(place.base.join("ws/c.yaml").is_symlink());
        assert_eq!(fs::read_to_string(place.base.join("dotfile.yaml")).unwrap(), TEMPLATE);
    }

    #[test]
    fn a_link_that_leads_nowhere_stays_and_is_written_through_when_forced() {
        let place = InitFixture::new();
        let (link, end) = (place.base.join("ws/c.yaml"), place.base.join("dots/c.yaml"));
        symlink("sub/second", &link).unwrap();
        symlink("../../dots/c.yaml", place.base.join("ws/sub/second")).unwrap();
        let path = target(Some(Path::new("c.yaml")), InitScope::User, None, &place.env("")).unwrap();
        assert_eq!(
            init(path.clone(), InitScope::User, Existing::Keep).unwrap_err().code(),
            "CONFIG_ALREADY_EXISTS"
        );
        let done = init(path, InitScope::User, Existing::Replace).unwrap();
        assert_eq!(done, Initialized { path: end.clone(), scope: InitScope::User, overwritten: false });
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(link).unwrap(), TEMPLATE);
        let ring = place.base.join("ring");
        symlink("ring", &ring).unwrap();
        assert_eq!(init(ring, InitScope::User, Existing::Replace).unwrap_err().code(), "CONFIG_UNWRITABLE");
    }

    #[test]
    fn a_target_that_cannot_be_written_is_reported() {
        let place = InitFixture::new();
        fs::write(place.base.join("file"), "").unwrap();
        let below_a_file = init(place.base.join("file/c.yaml"), InitScope::User, Existing::Keep).unwrap_err();
        let a_folder = init(place.base.join("ws"), InitScope::User, Existing::Replace).unwrap_err();
        for error in [below_a_file, a_folder] {
            assert_eq!(error.code(), "CONFIG_UNWRITABLE");
            assert!(error.details().contains_key("error"));
        }
    }
}
