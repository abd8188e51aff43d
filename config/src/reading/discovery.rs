//! Finds and loads the config files of a command.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::hosts::DaemonHosts;
use crate::markers::{self, CONFIG_FILE, DOT_SUBAGENT};
use crate::model::Config;
use crate::policy::Rule;
use crate::{builtin, file, layers, paths, workspace};

/// The rule that selected a config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// The flag `--config` names it.
    Flag,
    /// The variable `SUBAGENT_CONFIG` names it.
    Variable,
    /// `.subagent/config.yaml` of the working folder or a parent.
    Project,
    /// `~/.config/subagent/config.yaml`, whether it exists or not.
    User,
}

impl ConfigSource {
    /// The word in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Variable => "variable",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// One layer of a config.
#[derive(Clone, PartialEq)]
pub struct ConfigFile {
    /// The file, absolute and without symbolic links.
    pub path: PathBuf,
    /// The rule that selected it.
    pub source: ConfigSource,
    pub(crate) text: String,
    pub(crate) document: Value,
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The document may contain secrets.
        write!(f, "{} {}", self.source.as_str(), self.path.display())
    }
}

/// The permission rules of the user file below a project file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRules {
    /// The path of the user file.
    pub path: PathBuf,
    /// The rules of the user file.
    pub rules: Vec<Rule>,
}

/// A config with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// The merged config of all layers. Rules and hooks come from `path` alone.
    pub config: Config,
    /// The file of highest precedence, absolute and without symbolic links as far as it exists.
    pub path: PathBuf,
    /// The rule that selected `path`.
    pub source: ConfigSource,
    /// Whether a file exists at `path`.
    pub loaded: bool,
    /// The files in ascending order of precedence.
    pub files: Vec<ConfigFile>,
    /// The rules of the user file, if a project file takes precedence over it.
    pub user_rules: Option<UserRules>,
}

impl LoadedConfig {
    /// Returns the config without any file.
    #[must_use]
    pub fn built_in(env: &Environment) -> Self {
        Self {
            config: Config { launchers: builtin::launchers(env), ..Config::default() },
            path: PathBuf::new(),
            source: ConfigSource::User,
            loaded: false,
            files: Vec::new(),
            user_rules: None,
        }
    }

    /// Returns the file that defines this launcher; `None` if it is built in.
    #[must_use]
    pub fn file_of_launcher(&self, name: &str) -> Option<&ConfigFile> {
        self.files.iter().rev().find(|file| !file.document["launchers"][name].is_null())
    }

    /// Returns the user file, if a project file takes precedence over it.
    #[must_use]
    pub fn user_file(&self) -> Option<&Path> {
        let [user, _] = self.files.as_slice() else { return None };
        Some(&user.path)
    }
}

/// Finds and loads the config of a command. The order of precedence is `--config`, `SUBAGENT_CONFIG`, the
/// nearest `.subagent/config.yaml` upward from `--cwd` (default: the caller's working directory), then
/// `~/.config/subagent/config.yaml`. Only a project file is merged over the user file. Built-in launchers
/// are the lowest layer.
///
/// # Errors
/// `CONFIG_PARSE_ERROR`, also if a file of `--config` or `SUBAGENT_CONFIG` does not exist.
pub fn load(
    config_flag: Option<&Path>,
    typed_cwd: Option<&Path>,
    env: &Environment,
) -> Result<LoadedConfig, ConfigError> {
    let (path, source) = locate(config_flag, typed_cwd, env)?;
    let below = user_path(env).filter(|_| source == ConfigSource::Project);
    load_by(file::load, path, source, below, env)
}

/// Returns the hosts of the user's own config file: that of `SUBAGENT_CONFIG`, or the one in the
/// home.
///
/// # Errors
/// `CONFIG_PARSE_ERROR`.
pub fn daemon_hosts(env: &Environment) -> Result<DaemonHosts, ConfigError> {
    let user = || user_path(env).filter(|path| path.try_exists().unwrap_or(true));
    match variable_path(env).or_else(user) {
        Some(path) => Ok(load(Some(&path), None, env)?.config.hosts),
        None => Ok(DaemonHosts::new()),
    }
}

/// Returns the files of a command, in ascending order of precedence.
pub(crate) fn files(
    config_flag: Option<&Path>,
    typed_cwd: Option<&Path>,
    env: &Environment,
) -> Result<Vec<(PathBuf, ConfigSource)>, ConfigError> {
    let (path, source) = locate(config_flag, typed_cwd, env)?;
    let user = user_path(env).filter(|user| source == ConfigSource::Project && *user != path);
    let mut files: Vec<_> = user.map(|user| (user, ConfigSource::User)).into_iter().collect();
    files.retain(|(path, _)| path.try_exists().unwrap_or(true));
    match (path.try_exists().unwrap_or(true), origin(source)) {
        (true, _) => files.push((path, source)),
        (false, None) => {}
        (false, Some(origin)) => return Err(ConfigError::ConfigMissing { path, origin }),
    }
    Ok(files)
}

/// Loads the same config from known paths. Only regular files are read, because a pipe or a device would
/// block the daemon. `user` is the user file below a project's `config`.
///
/// # Errors
/// Those of [`load`].
pub fn load_regular(
    config: Option<&Path>,
    user: Option<&Path>,
    env: &Environment,
) -> Result<LoadedConfig, ConfigError> {
    let (path, source) = match (config, user) {
        (Some(config), Some(_)) => (paths::resolve(config, env), ConfigSource::Project),
        _ => locate(config, None, env)?,
    };
    let below = user.map(Path::to_owned).or_else(|| user_path(env));
    load_by(file::load_regular, path, source, below.filter(|_| source == ConfigSource::Project), env)
}

fn load_by(
    read: impl Fn(&Path) -> Result<file::Written, ConfigError>,
    path: PathBuf,
    source: ConfigSource,
    below: Option<PathBuf>,
    env: &Environment,
) -> Result<LoadedConfig, ConfigError> {
    let mut loaded = LoadedConfig { path, source, ..LoadedConfig::built_in(env) };
    loaded.loaded = loaded.path.try_exists().unwrap_or(true);
    if let (false, Some(origin)) = (loaded.loaded, origin(source)) {
        return Err(ConfigError::ConfigMissing { path: loaded.path, origin });
    }
    let user = below.clone();
    let below = below.filter(|user| *user != loaded.path && user.try_exists().unwrap_or(true));
    let below = below.map(|user| (user, ConfigSource::User));
    let own = loaded.loaded.then(|| (loaded.path.clone(), source));
    let mut configs = Vec::new();
    for (path, source) in below.into_iter().chain(own) {
        let file::Written { text, mut document } = read(&path)?;
        builtin::complete(&mut document, env);
        if source == ConfigSource::Project && user.as_ref() != Some(&path) {
            file::check_project(&path, &text, &document, user.as_deref())?;
        }
        configs.push(file::check(&path, &text, &document)?);
        loaded.files.push(ConfigFile { path, source, text, document });
    }
    let (config, user) = match (configs.pop(), configs.pop()) {
        (Some(upper), Some(lower)) => (over(upper, &loaded, &lower)?, Some(lower)),
        (upper, _) => (upper.unwrap_or_default(), None),
    };
    if let (Some(Config { permissions: Some(rules), .. }), [file, _]) = (user, loaded.files.as_slice()) {
        loaded.user_rules = Some(UserRules { path: file.path.clone(), rules });
    }
    let built_in = std::mem::replace(&mut loaded.config, config);
    for (name, launcher) in built_in.launchers {
        loaded.config.launchers.entry(name).or_insert(launcher);
    }
    Ok(loaded)
}

/// Merges the config of a project over the user's.
fn over(project: Config, loaded: &LoadedConfig, user: &Config) -> Result<Config, ConfigError> {
    let documents: Vec<&Value> = loaded.files.iter().map(|file| &file.document).collect();
    let (mut merged, _) = layers::merge(&documents, Some(0));
    // These keys are not merged, because they carry positions in their files.
    for key in ["permissions", "hooks", "notify", "schedules", "triggers"] {
        merged.as_object_mut().map(|merged| merged.remove(key));
    }
    let config = file::check(&loaded.path, "", &merged)?;
    Ok(Config {
        permissions: project.permissions,
        hooks: project.hooks,
        notify: user.notify.clone(),
        schedules: user.schedules.clone(),
        triggers: user.triggers.clone(),
        ..config
    })
}

/// Returns the path of a command's config file, which may not exist.
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
    // Without a home, the path is shown with `~`.
    let path = user_path(env).unwrap_or_else(|| Path::new("~").join(USER_CONFIG).join(CONFIG_FILE));
    Ok((path, ConfigSource::User))
}

const USER_CONFIG: &str = ".config/subagent";

/// Returns `~/.config/subagent/config.yaml`, which may not exist; `None` without a home.
#[must_use]
pub fn user_path(env: &Environment) -> Option<PathBuf> {
    user_link_path(env).map(|path| paths::resolve_absolute(&path))
}

/// Returns the folder of the user's config file; that of the root without a home.
pub(crate) fn user_folder(home: Option<&Path>) -> PathBuf {
    home.unwrap_or(Path::new("/")).join(USER_CONFIG)
}

/// As [`user_path`], with symbolic links as they are: a link may get another target.
pub fn user_link_path(env: &Environment) -> Option<PathBuf> {
    env.home.as_ref().map(|home| home.join(USER_CONFIG).join(CONFIG_FILE))
}

/// The path in `SUBAGENT_CONFIG`.
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

    struct DiscoveryFixture {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    impl DiscoveryFixture {
        /// Creates the folders `home`, `ws/sub` and `other`. Each config file has one launcher, named by
        /// its path.
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
            let known = builtin::NAMES;
            let own: Vec<&str> = found.config.launchers.keys().map(String::as_str).collect();
            let own: Vec<&str> = own.into_iter().filter(|name| !known.contains(name)).collect();
            let below = if source == ConfigSource::Project && self.base.join(USER).exists() {
                &[USER][..]
            } else {
                &[]
            };
            assert_eq!(own, [below, &[file]].concat());
        }
    }

    const USER: &str = "home/.config/subagent/config.yaml";

    #[test]
    fn flag_then_variable_then_project_then_user() {
        let project = "ws/.subagent/config.yaml";
        let place = DiscoveryFixture::new(&[
            "flag.yaml",
            "home/variable.yaml",
            project,
            USER,
            "other/.subagent/config.yaml",
        ]);
        place.expect(Some("../../flag.yaml"), None, "~/variable.yaml", "flag.yaml", ConfigSource::Flag);
        place.expect(None, None, "~/variable.yaml", "home/variable.yaml", ConfigSource::Variable);
        place.expect(None, None, "", project, ConfigSource::Project);
        place.expect(None, Some("../../other"), "", "other/.subagent/config.yaml", ConfigSource::Project);
        place.expect(None, Some("../../home"), "", USER, ConfigSource::User);
    }

    #[test]
    fn a_project_counts_key_by_key_over_the_user() {
        let project = "ws/.subagent/config.yaml";
        let place = DiscoveryFixture::new(&[USER, project]);
        let write = |file: &str, text: &str| fs::write(place.base.join(file), text).unwrap();
        write(
            USER,
            "launchers: {codex: {command: mine, env: {KEY: secret}}, gemini: {env: {KEY: k}}}\n\
             permissions: {execute: {'rm *': deny}}\nnotify: [{to: bell}]\ndefaults: {launcher: codex}\n\
             budgets: {worker: {turns: 5}}\n",
        );
        write(
            project,
            "permissions: {execute: allow}\nnotify: [{to: desktop}]\nbudgets: {worker: {turns: 9}}\n",
        );
        let found = load(None, None, &place.env("")).unwrap();
        let config = &found.config;
        assert_eq!(config.launchers["codex"].command, "mine");
        assert_eq!(
            (config.launchers["gemini"].command.as_str(), &*config.launchers["gemini"].env["KEY"]),
            ("npx", "k")
        );
        assert_eq!(config.defaults.launcher.as_deref(), Some("codex"));
        assert_eq!(config.budgets.worker.turns, Some(5));
        assert_eq!(config.notify.iter().map(|sink| sink.to.as_str()).collect::<Vec<_>>(), ["bell"]);
        assert_eq!(config.permissions.as_ref().unwrap().len(), 1);
        assert_eq!(found.user_rules.as_ref().unwrap().rules.len(), 1);
        assert_eq!(found.user_file(), Some(place.base.join(USER).as_path()));
        let file = |name: &str| found.file_of_launcher(name).map(|file| file.source);
        assert_eq!((file("codex"), file("kiro")), (Some(ConfigSource::User), None));
        // Tasks load the same config by its paths.
        let again = load_regular(Some(&found.path), found.user_file(), &place.env("")).unwrap();
        assert_eq!(again, found);
        // A file of `--config` is not merged with others.
        let alone = load(Some(&found.path), None, &place.env("")).unwrap();
        assert_eq!((alone.config.budgets.worker.turns, alone.user_rules), (Some(9), None));
        // A project's launcher replaces the user's as a whole.
        write(project, "launchers: {codex: {env: {URL: x}}}");
        let found = load(None, None, &place.env("")).unwrap();
        let codex = &found.config.launchers["codex"];
        assert_eq!(codex.command, "npx");
        assert!(codex.env.keys().eq(["URL"]), "{:?}", codex.env.keys());
        // An invalid user file is an error too.
        write(USER, "launchers: 7");
        assert_eq!(
            load(None, None, &place.env("")).unwrap_err().details()["path"],
            place.base.join(USER).to_str().unwrap()
        );
    }

    #[test]
    fn no_file_at_all_is_an_empty_config() {
        let place = DiscoveryFixture::new(&[]);
        let found = load(None, None, &place.env("")).unwrap();
        assert_eq!(
            (found.path, found.loaded, &found.config.role_hints),
            (place.base.join(USER), false, &std::collections::BTreeMap::new())
        );
        assert!(found.config.launchers.keys().eq(builtin::NAMES));
    }

    #[test]
    fn without_a_home_there_is_no_user_config() {
        let place = DiscoveryFixture::new(&[]);
        let found = load(None, None, &Environment::new([], place.base.join("ws"))).unwrap();
        assert_eq!((found.source, found.loaded), (ConfigSource::User, false));
        assert_eq!(found.path, Path::new("~/.config/subagent/config.yaml"));
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let place = DiscoveryFixture::new(&[USER]);
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
        let place = DiscoveryFixture::new(&[]);
        fs::create_dir_all(place.base.join("ws/.subagent/config.yaml")).unwrap();
        assert_eq!(load(None, None, &place.env("")).unwrap_err().code(), "CONFIG_PARSE_ERROR");
    }

    #[test]
    fn a_cwd_that_is_not_there_is_named() {
        let place = DiscoveryFixture::new(&[]);
        let error = load(None, Some(Path::new("none")), &place.env("")).unwrap_err();
        assert_eq!(error.code(), "INVALID_ARGUMENT");
    }
}
