//! What a start means on another machine than the daemon's: home, working folder, program and
//! environment are those of this process, which a login shell started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};
use subagent_protocol::api::TASK_SERVER;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::mcp::{self, TASK_SERVER_PROGRAM, complete_task_server};
use subagent_protocol::placement::{PLACED_THERE, SubmitFailure};
use subagent_protocol::start::RuntimeStart;

use super::folder::task_folder;

/// The search path if `PATH` is unset, as the operating system uses it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The longest name of a socket in the folder of the task server.
const LONGEST_PID: &str = "4194304";
/// Maximum length of the path of a socket.
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// Variables about this connection, this shell or a service, which an agent must not have.
const ABOUT_CALLER: [&str; 9] = [
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_ORIGINAL_COMMAND",
    "SSH_TTY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "NOTIFY_SOCKET",
    "OLDPWD",
    "SHLVL",
];

/// Why a start is impossible here.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) reason: SubmitFailure,
    pub(super) message: String,
}

/// Returns the folder of the placed workers: the given one, or that of this machine.
///
/// # Errors
///
/// Without an absolute `HOME`, if the folder is below it.
pub(super) fn root(given: Option<PathBuf>) -> io::Result<PathBuf> {
    match given {
        Some(root) => path(root.as_os_str()),
        None => expanded(PLACED_THERE),
    }
}

/// Expands a leading `~` of a path to the home of this process.
///
/// # Errors
///
/// Without an absolute `HOME`, if the path has one.
pub(crate) fn path(written: &OsStr) -> io::Result<PathBuf> {
    written.to_str().map_or_else(|| Ok(PathBuf::from(written)), expanded)
}

/// Completes the start with what this machine has. `folder` is the worker's.
///
/// # Errors
///
/// The problem that the user has to solve here.
pub(super) fn resolve(start: &mut RuntimeStart, folder: &Path) -> Result<(), Problem> {
    let cwd = working_folder(&start.agent.cwd)?;
    let written = std::mem::replace(&mut start.agent.cwd, cwd.clone());
    for root in &mut start.roots {
        if *root == written {
            root.clone_from(&cwd);
        }
    }
    start.private.extend(folder.parent().map(Path::to_owned));
    if start.task_server_there {
        task_server(start, folder)?;
    }
    let variables = variables(std::env::vars_os(), &start.agent.env, &cwd);
    let path = variables.get(OsStr::new("PATH")).map(OsString::as_os_str).filter(|path| !path.is_empty());
    start.agent.program = program(&start.agent.program, path, &cwd)?;
    let bytes = |text: OsString| Bytes64(text.into_vec());
    start.agent.env = variables.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
    Ok(())
}

/// Completes the task server of the agent: its program is beside this one.
fn task_server(start: &mut RuntimeStart, folder: &Path) -> Result<(), Problem> {
    let problem = |message: String| Problem { reason: SubmitFailure::NoTaskServer, message };
    let own = std::env::current_exe().map_err(|error| problem(error.to_string()))?;
    let program = own.with_file_name(TASK_SERVER_PROGRAM);
    if !is_program(&program) {
        let missing = program.display();
        return Err(problem(format!(
            "the agent may give tasks, and the program for it is missing: {missing}"
        )));
    }
    let state_dir = served_folder(folder)?;
    for server in start.mcp_servers.0.iter_mut().filter(|server| mcp::name(server) == TASK_SERVER) {
        complete_task_server(server, &program, &state_dir);
    }
    Ok(())
}

/// Returns the folder of the task server, in which `dial` can listen.
fn served_folder(folder: &Path) -> Result<PathBuf, Problem> {
    let tasks = task_folder(folder);
    match tasks.join(LONGEST_PID).as_os_str().len() <= MAX_SOCKET_PATH_BYTES {
        true => Ok(tasks),
        false => Err(Problem {
            reason: SubmitFailure::Other,
            message: format!(
                "the agent may give tasks, and the path of a socket in {} would be longer than {MAX_SOCKET_PATH_BYTES} bytes",
                tasks.display()
            ),
        }),
    }
}

/// Expands a leading `~` to the home of this process.
fn expanded(path: &str) -> io::Result<PathBuf> {
    let below = match path.strip_prefix('~') {
        Some("") => "",
        Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => return Ok(PathBuf::from(path)),
    };
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "HOME is not set"))?;
    Ok(if below.is_empty() { home } else { home.join(below) })
}

fn working_folder(written: &Path) -> Result<PathBuf, Problem> {
    let problem = |message: String| Problem { reason: SubmitFailure::NoFolder, message };
    let path = expanded(&written.to_string_lossy()).map_err(|error| problem(error.to_string()))?;
    let real = path.canonicalize().map_err(|error| problem(format!("{}: {error}", path.display())))?;
    match real.is_dir() {
        true if real.to_str().is_some() => Ok(real),
        true => Err(problem(format!("{} is not UTF-8", real.display()))),
        false => Err(problem(format!("{} is not a folder", real.display()))),
    }
}

/// Returns the environment of the agent: that of this process, below the variables of the request.
fn variables(
    own: impl Iterator<Item = (OsString, OsString)>,
    given: &[(Bytes64, Bytes64)],
    cwd: &Path,
) -> BTreeMap<OsString, OsString> {
    let about_caller = |name: &OsStr| {
        let bytes = name.as_bytes();
        bytes == b"_"
            || bytes.starts_with(b"SUBAGENT_")
            || bytes.starts_with(b"LISTEN_")
            || ABOUT_CALLER.iter().any(|one| name == *one)
    };
    let mut variables: BTreeMap<_, _> = own.filter(|(name, _)| !about_caller(name)).collect();
    variables.insert("PWD".into(), cwd.into());
    let text = |bytes: &Bytes64| OsString::from_vec(bytes.0.clone());
    variables.extend(given.iter().map(|(name, value)| (text(name), text(value))));
    variables
}

/// Finds the agent's program: a path, or a name in the PATH here.
fn program(written: &str, path: Option<&OsStr>, cwd: &Path) -> Result<String, Problem> {
    let problem = |message: String| Problem { reason: SubmitFailure::NoProgram, message };
    let found = if written.contains('/') {
        let file = cwd.join(expanded(written).map_err(|error| problem(error.to_string()))?);
        match is_program(&file) {
            true => file,
            false => {
                return Err(problem(format!("{} is no program that this user may start", file.display())));
            }
        }
    } else {
        let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
        let mut files = std::env::split_paths(path).map(|folder| cwd.join(folder).join(written));
        files.find(|file| is_program(file)).ok_or_else(|| {
            let path = path.to_string_lossy();
            problem(format!(
                "`{written}` is not installed there, or not in the PATH of a login shell ({path})"
            ))
        })?
    };
    found.into_os_string().into_string().map_err(|path| problem(format!("{} is not UTF-8", path.display())))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_the_environment_of_this_machine_below_that_of_the_request() {
        let own =
            [("PATH", "/here"), ("SSH_CONNECTION", "x"), ("SUBAGENT_LOG", "x"), ("A", "here"), ("_", "x")];
        let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
        let given = [(Bytes64(b"A".to_vec()), Bytes64(b"given".to_vec()))];
        let found = variables(own, &given, Path::new("/work"));
        let expected = [("A", "given"), ("PATH", "/here"), ("PWD", "/work")];
        assert_eq!(found, expected.map(|(name, value)| (name.into(), value.into())).into());
    }

    #[test]
    fn a_folder_too_deep_for_the_socket_of_tasks_is_refused_at_the_start() {
        let deep = |bytes: usize| PathBuf::from(format!("/{}", "x".repeat(bytes - 1)));
        let rest = "/tasks/4194304".len();
        assert!(served_folder(&deep(MAX_SOCKET_PATH_BYTES - rest)).is_ok());
        let refused = served_folder(&deep(MAX_SOCKET_PATH_BYTES - rest + 1)).unwrap_err();
        assert_eq!(refused.reason, SubmitFailure::Other);
    }

    #[test]
    fn a_program_is_looked_up_here() {
        let folder = tempfile::tempdir().unwrap();
        let missing =
            |written: &str| program(written, Some(folder.path().as_os_str()), folder.path()).unwrap_err();
        for written in ["no-such-agent", "./no-such-agent", "/"] {
            assert_eq!(missing(written).reason, SubmitFailure::NoProgram, "{written}");
        }
        assert_eq!(program("sh", Some(OsStr::new("/nonexistent:/bin")), folder.path()).unwrap(), "/bin/sh");
        assert_eq!(program("/bin/sh", None, folder.path()).unwrap(), "/bin/sh");
        assert_eq!(working_folder(&folder.path().join("x")).unwrap_err().reason, SubmitFailure::NoFolder);
        assert_eq!(working_folder(Path::new("/bin/sh")).unwrap_err().reason, SubmitFailure::NoFolder);
    }
}
