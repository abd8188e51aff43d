//! What program a launcher's command line means, here and now. Looks at the file system, starts nothing.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use nix::unistd::AccessFlags;

use crate::environment::Environment;
use crate::model::Launcher;
use crate::paths;

/// Where programs are searched when no `PATH` is set at all: what the system's own search does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A launcher taken apart and looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedLauncher {
    /// The launcher's name in the config file.
    pub name: String,
    /// How to talk to it.
    pub backend_kind: String,
    /// The command as configured.
    pub command: String,
    /// The arguments as configured.
    pub args: Vec<String>,
    /// The program: the first word of the command.
    pub effective_command: String,
    /// Its arguments: the other words of the command, then `args`.
    pub effective_args: Vec<String>,
    /// Whether the command had more than one word.
    pub command_was_tokenized: bool,
    /// Whether the program can be started.
    pub available: bool,
    /// The program's real path, all symbolic links resolved: what to show.
    pub resolved_path: Option<PathBuf>,
    /// The program's absolute path with its own name: what to start. Version managers put links in the PATH whose
    /// name decides what the program behind them does.
    pub exec_path: Option<PathBuf>,
    /// Names of the variables that the launcher sets, sorted.
    pub env_keys: Vec<String>,
    /// Why it is not available.
    pub problem: Option<LauncherProblem>,
}

/// Why a program cannot be started; `Display` is a whole sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LauncherProblem {
    /// There is nothing at this path.
    NoSuchFile(PathBuf),
    /// No folder of the PATH has a program of this name.
    NotInPath {
        /// The name.
        command: String,
        /// The PATH that was searched.
        path: String,
    },
    /// It is there, and this user may not execute it.
    NotExecutable(PathBuf),
    /// It is a directory.
    IsDirectory(PathBuf),
    /// It is a pipe, a socket or a device.
    NotAFile(PathBuf),
}

impl fmt::Display for LauncherProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchFile(path) => write!(f, "{} does not exist", path.display()),
            Self::NotInPath { command, path } => {
                write!(f, "`{command}` is not installed, or not in the PATH ({path})")
            }
            Self::NotExecutable(path) => {
                write!(f, "{0} is not executable; try `chmod +x {0}`", path.display())
            }
            Self::IsDirectory(path) => write!(f, "{} is a directory, not a program", path.display()),
            Self::NotAFile(path) => write!(f, "{} is not a regular file", path.display()),
        }
    }
}

/// Takes a launcher's command apart and looks its program up as it would be started in `worker_cwd` (absolute).
///
/// A command with a `/` is a path, relative to `worker_cwd`, `~` being the caller's home. Any other is searched in the
/// PATH of the launcher's own `env`, else in the caller's.
pub fn resolve(name: &str, launcher: &Launcher, worker_cwd: &Path, env: &Environment) -> ResolvedLauncher {
    let mut words = words(&launcher.command, worker_cwd, env);
    let command_was_tokenized = words.len() > 1;
    let effective_command = words.remove(0);
    words.extend(launcher.args.iter().cloned());
    let found = look_up(&effective_command, launcher, worker_cwd, env);
    let (exec_path, problem) = match found {
        Ok(path) => (Some(path), None),
        Err(problem) => (None, Some(problem)),
    };
    ResolvedLauncher {
        name: name.to_owned(),
        backend_kind: launcher.backend_kind.clone(),
        command: launcher.command.clone(),
        args: launcher.args.clone(),
        effective_command,
        effective_args: words,
        command_was_tokenized,
        available: exec_path.is_some(),
        resolved_path: exec_path.as_deref().map(paths::resolve_absolute),
        exec_path,
        env_keys: launcher.env.keys().cloned().collect(),
        problem,
    }
}

/// The words of a command line, at least one. A line that no shell could split, or that as a whole is the path of a
/// program (a folder's name may have spaces), is one word.
fn words(command: &str, worker_cwd: &Path, env: &Environment) -> Vec<String> {
    let whole = || vec![command.trim().to_owned()];
    if command.contains('/') && check(&at(command.trim(), worker_cwd, env)).is_ok() {
        return whole();
    }
    // In a config file a `#` begins no comment. Nothing else here means what a NUL does, which no command can hold.
    match shell_words::split(&command.replace('#', "\0")) {
        Ok(words) if words.first().is_some_and(|first| !first.is_empty()) => {
            words.iter().map(|word| word.replace('\0', "#")).collect()
        }
        _ => whole(),
    }
}

fn look_up(
    command: &str,
    launcher: &Launcher,
    worker_cwd: &Path,
    env: &Environment,
) -> Result<PathBuf, LauncherProblem> {
    let own = launcher.env.get("PATH").map(OsStr::new).filter(|path| !path.is_empty());
    search(command, own, worker_cwd, env)
}

/// The program that a word means to a worker in `worker_cwd` whose whole environment is `env`, with the rules of
/// [`resolve`].
///
/// # Errors
/// Why it cannot be started.
pub fn find_program(command: &str, worker_cwd: &Path, env: &Environment) -> Result<PathBuf, LauncherProblem> {
    search(command, None, worker_cwd, env)
}

fn search(
    command: &str,
    own_path: Option<&OsStr>,
    worker_cwd: &Path,
    env: &Environment,
) -> Result<PathBuf, LauncherProblem> {
    if command.contains('/') {
        return check(&at(command, worker_cwd, env));
    }
    let path = own_path.or_else(|| env.var("PATH")).unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut problem = None;
    for folder in std::env::split_paths(path) {
        // An empty or relative entry means the folder in which the program will be started.
        match check(&worker_cwd.join(folder).join(command)) {
            Ok(found) => return Ok(found),
            Err(LauncherProblem::NotExecutable(file)) => {
                problem.get_or_insert(LauncherProblem::NotExecutable(file));
            }
            Err(_) => {}
        }
    }
    Err(problem.unwrap_or_else(|| LauncherProblem::NotInPath {
        command: command.to_owned(),
        path: path.to_string_lossy().into_owned(),
    }))
}

fn at(command: &str, worker_cwd: &Path, env: &Environment) -> PathBuf {
    worker_cwd.join(paths::expand_home(Path::new(command), env))
}

/// The path itself if it is a program that this user may start.
fn check(path: &Path) -> Result<PathBuf, LauncherProblem> {
    let path = path.to_owned();
    match std::fs::metadata(&path) {
        Err(_) => Err(LauncherProblem::NoSuchFile(path)),
        Ok(found) if found.is_dir() => Err(LauncherProblem::IsDirectory(path)),
        Ok(found) if !found.is_file() => Err(LauncherProblem::NotAFile(path)),
        Ok(_) if nix::unistd::access(&path, AccessFlags::X_OK).is_err() => {
            Err(LauncherProblem::NotExecutable(path))
        }
        Ok(_) => Ok(path),
    }
}

#[cfg(test)]
#[path = "launcher_tests.rs"]
mod tests;
