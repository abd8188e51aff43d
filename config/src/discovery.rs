//! Which config file a command uses, and loading it.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::markers::{self, CONFIG_FILE, DOT_SUBAGENT};
use crate::model::Config;
use crate::{file, paths, workspace};

/// Why a config file is the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// `--config`.
    Flag,
    /// `SUBAGENT_CONFIG`.
    Variable,
    /// `.subagent/config.yaml` of a folder.
    Project,
    /// `~/.config/subagent/config.yaml`, whether it exists or not.
    User,
}

/// A config and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// What the file says; empty if there is none.
    pub config: Config,
    /// The file, absolute and without symbolic links as far as it exists.
    pub path: PathBuf,
    /// Why it is this one.
    pub source: ConfigSource,
    /// Whether there was a file.
    pub loaded: bool,
}

/// Finds and loads the config of a command: `--config` > `SUBAGENT_CONFIG` > the nearest `.subagent/config.yaml` from
/// `--cwd` (or else the caller's working directory) upward > `~/.config/subagent/config.yaml`.
///
/// Only the last may be missing: a file that was named must exist (`CONFIG_PARSE_ERROR`).
pub fn load(
    config_flag: Option<&Path>,
    typed_cwd: Option<&Path>,
    env: &Environment,
) -> Result<LoadedConfig, ConfigError> {
    load_by(file::load, locate(config_flag, typed_cwd, env)?)
}

/// The same of regular files alone: whoever may write where the config is must not hold up who reads it.
///
/// # Errors
/// As [`load`].
pub fn load_regular(config: Option<&Path>, env: &Environment) -> Result<LoadedConfig, ConfigError> {
    load_by(file::load_regular, locate(config, None, env)?)
}

fn load_by(
    read: impl FnOnce(&Path) -> Result<Config, ConfigError>,
    (path, source): (PathBuf, ConfigSource),
) -> Result<LoadedConfig, ConfigError> {
    let exists = path.try_exists().unwrap_or(true);
    let config = match (exists, origin(source)) {
        (true, _) => read(&path)?,
        (false, None) => Config::default(),
        (false, Some(origin)) => return Err(ConfigError::ConfigMissing { path, origin }),
    };
    Ok(LoadedConfig { config, path, source, loaded: exists })
}

/// The path of the config file of a command, whether it exists or not.
pub fn locate(
    config_flag: Option<&Path>,
    typed_cwd: Option<&Path>,
    env: &Environment,
) -> Result<(PathBuf, ConfigSource), ConfigError> {
    if let Some(path) = config_flag.filter(|path| !path.as_os_str().is_empty()) {
        return Ok((paths::resolve(path, env), ConfigSource::Flag));
    }
    if let Some(path) = variable_path(env) {
        return Ok((path, ConfigSource::Variable));
    }
    let start = workspace::resolve_cwd(typed_cwd, env)?;
    let marker = Path::new(DOT_SUBAGENT).join(CONFIG_FILE);
    if let Some(folder) = markers::nearest(&start, std::slice::from_ref(&marker)) {
        return Ok((paths::resolve_absolute(&folder.join(marker)), ConfigSource::Project));
    }
    // Without a home there is no such file; what is shown then is the name that it would have.
    let path = user_path(env).unwrap_or_else(|| Path::new("~").join(USER_CONFIG).join(CONFIG_FILE));
    Ok((path, ConfigSource::User))
}

const USER_CONFIG: &str = ".config/subagent";

/// The user's own config file, `~/.config/subagent/config.yaml`, whether it exists or not; none without a home.
#[must_use]
pub fn user_path(env: &Environment) -> Option<PathBuf> {
    let home = env.home.as_ref()?;
    Some(paths::resolve_absolute(&home.join(USER_CONFIG).join(CONFIG_FILE)))
}

/// What `SUBAGENT_CONFIG` names.
pub(crate) fn variable_path(env: &Environment) -> Option<PathBuf> {
    env.var("SUBAGENT_CONFIG").map(|path| paths::resolve(Path::new(path), env))
}

fn origin(source: ConfigSource) -> Option<&'static str> {
    match source {
        ConfigSource::Flag => Some("--config"),
        ConfigSource::Variable => Some("SUBAGENT_CONFIG"),
        ConfigSource::Project | ConfigSource::User => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Place {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    impl Place {
        /// Folders `home`, `ws/sub` and `other`; each of these files is a config whose only launcher is its path.
        fn new(files: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let base = dir.path().canonicalize().unwrap();
            for folder in ["home", "ws/sub", "other"] {
                fs::create_dir_all(base.join(folder)).unwrap();
            }
            for file in files {
                let path = base.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("launchers:\n  {file}:\n    command: x\n")).unwrap();
            }
            Self { _dir: dir, base }
        }

        fn env(&self, variable: &str) -> Environment {
            let vars =
                [("HOME".into(), self.base.join("home").into()), ("SUBAGENT_CONFIG".into(), variable.into())];
            Environment::new(vars, self.base.join("ws/sub"))
        }

        #[track_caller]
        fn expect(
            &self,
            flag: Option<&str>,
            cwd: Option<&str>,
            variable: &str,
            file: &str,
            source: ConfigSource,
        ) {
            let found = load(flag.map(Path::new), cwd.map(Path::new), &self.env(variable)).unwrap();
            assert_eq!((&found.path, found.source, found.loaded), (&self.base.join(file), source, true));
            assert_eq!(found.config.launchers.keys().collect::<Vec<_>>(), [file]);
        }
    }

    const USER: &str = "home/.config/subagent/config.yaml";

    #[test]
    fn flag_then_variable_then_project_then_user() {
        let project = "ws/.subagent/config.yaml";
        let place =
            Place::new(&["flag.yaml", "home/variable.yaml", project, USER, "other/.subagent/config.yaml"]);
        place.expect(Some("../../flag.yaml"), None, "~/variable.yaml", "flag.yaml", ConfigSource::Flag);
        place.expect(None, None, "~/variable.yaml", "home/variable.yaml", ConfigSource::Variable);
        place.expect(None, None, "", project, ConfigSource::Project);
        place.expect(None, Some("../../other"), "", "other/.subagent/config.yaml", ConfigSource::Project);
        place.expect(None, Some("../../home"), "", USER, ConfigSource::User);
    }

    #[test]
    fn no_file_at_all_is_an_empty_config() {
        let place = Place::new(&[]);
        let found = load(None, None, &place.env("")).unwrap();
        assert_eq!(
            (found.path, found.loaded, found.config),
            (place.base.join(USER), false, Config::default())
        );
    }

    #[test]
    fn without_a_home_there_is_no_user_config() {
        let place = Place::new(&[]);
        let found = load(None, None, &Environment::new([], place.base.join("ws"))).unwrap();
        assert_eq!((found.source, found.loaded), (ConfigSource::User, false));
        assert_eq!(found.path, Path::new("~/.config/subagent/config.yaml"));
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let place = Place::new(&[USER]);
        let by_flag = load(Some(Path::new("none.yaml")), None, &place.env("")).unwrap_err();
        let by_variable = load(None, None, &place.env("none.yaml")).unwrap_err();
        for (error, origin) in [(by_flag, "--config"), (by_variable, "SUBAGENT_CONFIG")] {
            assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
            assert_eq!(error.details()["path"], place.base.join("ws/sub/none.yaml").to_str().unwrap());
            assert!(error.details().contains_key("error"));
            assert!(error.message().contains(origin), "{error}");
        }
    }

    #[test]
    fn a_folder_in_place_of_the_file_is_an_error_not_a_gap() {
        let place = Place::new(&[]);
        fs::create_dir_all(place.base.join("ws/.subagent/config.yaml")).unwrap();
        assert_eq!(load(None, None, &place.env("")).unwrap_err().code(), "CONFIG_PARSE_ERROR");
    }

    #[test]
    fn a_cwd_that_is_not_there_is_named() {
        let place = Place::new(&[]);
        let error = load(None, Some(Path::new("none")), &place.env("")).unwrap_err();
        assert_eq!(error.code(), "INVALID_ARGUMENT");
    }
}
