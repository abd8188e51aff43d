//! The caller's environment as a value, and the part that an agent inherits. Pure: it never reads this
//! process's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Variables, working directory and home of the caller.
///
/// `Debug` shows only the names of variables: values may be secrets, and debug output goes to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// The caller's variables, without a filter.
    pub vars: BTreeMap<OsString, OsString>,
    /// The caller's working directory, absolute.
    pub cwd: PathBuf,
    /// The caller's home: an absolute `HOME`, or what [`Environment::or_home`] supplied.
    pub home: Option<PathBuf>,
}

impl Environment {
    /// Creates it from variables and an absolute working directory; see `std::env::vars_os()` and
    /// `current_dir()`.
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>, cwd: impl Into<PathBuf>) -> Self {
        let vars: BTreeMap<_, _> = vars.into_iter().collect();
        let home = vars.get(OsStr::new("HOME")).map(PathBuf::from).filter(|home| home.is_absolute());
        Self { vars, cwd: cwd.into(), home }
    }

    /// Sets the home (for example [`account_home`]) if `HOME` gave none.
    #[must_use]
    pub fn or_home(mut self, fallback: impl FnOnce() -> Option<PathBuf>) -> Self {
        self.home = self.home.or_else(fallback);
        self
    }

    /// Returns a variable; an empty one counts as unset.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.vars.keys().collect();
        f.debug_struct("Environment")
            .field("vars", &names)
            .field("cwd", &self.cwd)
            .field("home", &self.home)
            .finish()
    }
}

/// Returns the home directory of the process's account from the user database.
pub fn account_home() -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten()?;
    Some(user.dir).filter(|home| home.is_absolute())
}

/// Returns the environment of an agent: the caller's variables without process-specific ones, `PWD` set to
/// the worker's directory, then the launcher's `env`. Sorted by name; names are unique.
///
/// Removed are `SUBAGENT_*` (includes the owner's token), systemd's variables for one process
/// (`NOTIFY_SOCKET`, `LISTEN_*`, `INVOCATION_ID`, `JOURNAL_STREAM`), and those of a shell (`_`, `SHLVL`,
/// `OLDPWD`).
pub fn inherited_environment(
    caller: impl IntoIterator<Item = (OsString, OsString)>,
    launcher_env: &BTreeMap<String, String>,
    worker_cwd: &Path,
) -> Vec<(OsString, OsString)> {
    let mut vars: BTreeMap<OsString, OsString> =
        caller.into_iter().filter(|(name, _)| passes_on(name)).collect();
    vars.insert("PWD".into(), worker_cwd.into());
    vars.extend(launcher_env.iter().map(|(name, value)| (name.into(), value.into())));
    vars.into_iter().collect()
}

/// Whether child processes may inherit a variable: it is not about the process itself.
pub fn passes_on(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let about_caller = matches!(
        bytes,
        b"NOTIFY_SOCKET" | b"INVOCATION_ID" | b"JOURNAL_STREAM" | b"_" | b"SHLVL" | b"OLDPWD"
    );
    !about_caller && !bytes.starts_with(b"SUBAGENT_") && !bytes.starts_with(b"LISTEN_")
}

/// Whether a daemon inherits this variable from the process that starts it.
///
/// The daemon needs its own settings and every variable that the user's files name in `${NAME}`. It must not have an
/// owner's handle, a folder, or anything else that is about the caller alone.
pub fn daemon_inherits(name: &OsStr) -> bool {
    const ABOUT_CALLER: [&[u8]; 6] = [
        b"SUBAGENT_CONFIG",
        b"SUBAGENT_HOST",
        b"SUBAGENT_MARKER",
        b"SUBAGENT_STATE_DIR",
        b"SUBAGENT_TASK_TOKEN",
        b"SUBAGENT_WORKTREE_MAIN",
    ];
    const PREFIXES: [&[u8]; 2] = [b"SUBAGENT_CTL_", b"SUBAGENT_COMMAND_ENV_"];
    let bytes = name.as_bytes();
    let is_own = bytes.starts_with(b"SUBAGENT_");
    let about_caller =
        ABOUT_CALLER.contains(&bytes) || PREFIXES.iter().any(|prefix| bytes.starts_with(prefix));
    if is_own { !about_caller } else { passes_on(name) }
}

/// Disables the automatic start of the daemon.
pub const NO_AUTOSTART: &str = "SUBAGENT_NO_AUTOSTART";

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn what_is_about_the_caller_stays_behind() {
        let caller = pairs(&[
            ("PATH", "/bin"),
            ("API_KEY", "k"),
            ("SUBAGENT_CTL_TOKEN", "secret"),
            ("SUBAGENT_STATE_DIR", "/s"),
            ("SUBAGENTS", "kept"),
            ("NOTIFY_SOCKET", "x"),
            ("LISTEN_FDS", "1"),
            ("LISTEN_PID", "1"),
            ("LISTENER", "kept"),
            ("INVOCATION_ID", "x"),
            ("JOURNAL_STREAM", "x"),
            ("_", "x"),
            ("SHLVL", "3"),
            ("OLDPWD", "/old"),
            ("PWD", "/caller"),
        ]);
        let expected = pairs(&[
            ("API_KEY", "k"),
            ("LISTENER", "kept"),
            ("PATH", "/bin"),
            ("PWD", "/worker"),
            ("SUBAGENTS", "kept"),
        ]);
        assert_eq!(inherited_environment(caller, &BTreeMap::new(), Path::new("/worker")), expected);
    }

    #[test]
    fn a_daemon_inherits_settings_and_secrets_and_nothing_about_its_caller() {
        let inherits = |name: &&str| daemon_inherits(OsStr::new(name));
        let kept = ["PATH", "HOOK_URL", "SUBAGENT_LOG", "SUBAGENT_WEBHOOK_SECRET", NO_AUTOSTART, "SUBAGENTS"];
        assert_eq!(kept.iter().find(|name| !inherits(name)), None);
        let dropped = [
            "SUBAGENT_CTL_ID",
            "SUBAGENT_CTL_TOKEN",
            "SUBAGENT_COMMAND_ENV_PATH",
            "SUBAGENT_CONFIG",
            "SUBAGENT_MARKER",
            "SUBAGENT_STATE_DIR",
            "SUBAGENT_TASK_TOKEN",
            "SUBAGENT_WORKTREE_MAIN",
            "NOTIFY_SOCKET",
            "LISTEN_FDS",
        ];
        assert_eq!(dropped.iter().find(|name| inherits(name)), None);
        // An agent has none of ours.
        let secret = pairs(&[("SUBAGENT_WEBHOOK_SECRET", "s")]);
        assert_eq!(inherited_environment(secret, &BTreeMap::new(), Path::new("/w")), pairs(&[("PWD", "/w")]));
    }

    #[test]
    fn the_launcher_has_the_last_word() {
        let launcher =
            BTreeMap::from([("PATH".to_owned(), "/opt".to_owned()), ("NEW".to_owned(), String::new())]);
        let found = inherited_environment(pairs(&[("PATH", "/bin")]), &launcher, Path::new("/w"));
        assert_eq!(found, pairs(&[("NEW", ""), ("PATH", "/opt"), ("PWD", "/w")]));
    }

    #[test]
    fn bytes_that_are_not_text_survive() {
        let odd = OsStr::from_bytes(b"\xff\xfe").to_owned();
        let found = inherited_environment([(odd.clone(), odd.clone())], &BTreeMap::new(), Path::new("/w"));
        assert!(found.contains(&(odd.clone(), odd)));
    }

    #[test]
    fn debug_output_has_no_values() {
        let shown = format!("{:?}", Environment::new(pairs(&[("API_KEY", "sk-1")]), "/c"));
        assert!(shown.contains("API_KEY") && !shown.contains("sk-1"), "{shown}");
    }

    #[test]
    fn empty_is_unset_and_home_must_be_absolute() {
        let env = Environment::new(pairs(&[("A", ""), ("B", "b"), ("HOME", "rel")]), "/c");
        assert_eq!(env.var("A"), None);
        assert_eq!(env.var("B"), Some(OsStr::new("b")));
        assert_eq!(env.home, None);
        assert_eq!(env.or_home(|| Some("/h".into())).home, Some("/h".into()));
        let env = Environment::new(pairs(&[("HOME", "/mine")]), "/c").or_home(|| Some("/h".into()));
        assert_eq!(env.home, Some("/mine".into()));
    }
}
