//! Resolves a launcher's command line to a program. Reads the file system; must not start programs.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use nix::unistd::AccessFlags;

use crate::environment::Environment;
use crate::model::Launcher;
use crate::paths;

/// The search path if `PATH` is unset, as the operating system uses it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A launcher with its command line split and its program located.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedLauncher {
    /// Name of the launcher in the config.
    pub name: String,
    /// The protocol of the agent.
    pub backend_kind: String,
    /// The command line as configured.
    pub command: String,
    /// The additional arguments as configured.
    pub args: Vec<String>,
    /// The program: the first word of the command.
    pub effective_command: String,
    /// Its arguments: the other words of the command, then `args`.
    pub effective_args: Vec<String>,
    /// Whether the command had more than one word.
    pub command_was_tokenized: bool,
    /// Whether the program can be started.
    pub available: bool,
    /// The program's path without symbolic links, for display.
    pub resolved_path: Option<PathBuf>,
    /// The program's absolute path with its own name, for execution. Version managers put links into the
    /// PATH, and their program reads the name of the link.
    pub exec_path: Option<PathBuf>,
    /// Names of the launcher's variables, sorted.
    pub env_keys: Vec<String>,
    /// The reason if the program is unavailable.
    pub problem: Option<LauncherProblem>,
}

/// The reason why a program cannot be started; `Display` gives a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LauncherProblem {
    /// No file has this path.
    NoSuchFile(PathBuf),
    /// No folder in the PATH contains the program.
    NotInPath {
        /// Name of the program.
        command: String,
        /// The PATH that was searched.
        path: String,
    },
    /// The user may not execute the file.
    NotExecutable(PathBuf),
    /// The path is a directory.
    IsDirectory(PathBuf),
    /// The path is a pipe, a socket or a device.
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

/// Splits a launcher's command and locates its program, for a start in `worker_cwd` (absolute).
///
/// A command with a `/` is a path relative to `worker_cwd`; `~` is the caller's home. Any other command is
/// searched in the PATH of the launcher's `env`, or else in the caller's.
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

/// Splits a command line into at least one word. The line stays one word if a shell could not split it, or
/// if all of it is the path of a program (folder names may contain spaces).
pub(crate) fn words(command: &str, worker_cwd: &Path, env: &Environment) -> Vec<String> {
    let whole = || vec![command.trim().to_owned()];
    if command.contains('/') && check(&at(command.trim(), worker_cwd, env)).is_ok() {
        return whole();
    }
    // `#` does not begin a comment in a config file. A NUL replaces it during the split, because no command
    // contains one.
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

/// Locates a program with the rules of [`resolve`], for a worker in `worker_cwd` with the environment
/// `env`.
///
/// # Errors
/// The reason why the program cannot be started.
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
        // An empty or relative entry is relative to the program's working folder.
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

/// Returns the path if it is a program that this user may start.
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
