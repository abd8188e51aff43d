//! Runs a command on another host: that host's own `subagent`, through the user's ssh client. So its
//! files, config, launchers and environment are those of the host, and nothing of this machine
//! goes there but the arguments and standard input.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subagent_protocol::hosts::{DaemonHost, DialFailure};
use subagent_protocol::placement::client::MAX_SAID_BYTES;
use subagent_protocol::placement::ssh;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::client::{HostLink, block_on};
use crate::command_line::TypedFlags;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Returns what a command line means.
pub(crate) type LineReader = fn(&[OsString]) -> Option<String>;

/// Exit code of the shell line if there is no such folder. No command of `subagent` has it.
const NO_FOLDER: i32 = 125;
/// How long the rest of standard error is awaited after the end.
const REST: Duration = Duration::from_millis(500);
/// The flag whose `~` the shell there expands.
const CWD_FLAG: &str = "--cwd";
const HOST_FLAG: &str = "--host";

/// The folder in which a command runs there, unless the config file has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderThere {
    /// It must be named: the command changes something in it.
    Named,
    /// The home of the user there.
    Home,
}

/// Runs the command that was typed there, with standard input, output, error and exit code.
///
/// # Errors
/// `INVALID_ARGUMENT` without a folder; `HOST_UNREACHABLE`, `HOST_NOT_PREPARED`.
pub(crate) fn run(
    args: &[OsString],
    typed: &TypedFlags,
    (link, folder): (&HostLink, FolderThere),
    read: LineReader,
) -> Result<CliOutcome> {
    let host = link.host();
    let line = line(args, (host, folder), typed, read)?;
    // A question needs the terminal there. Otherwise output and errors stay apart.
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let client = client(host, &line, is_terminal);
    let (status, said) = block_on(async { ended(client).await.map_err(|error| unusable(host, &error)) })?;
    Ok(CliOutcome::Printed(ExitCode::from(code(host, status, &said)?)))
}

/// Runs the client to its end. It gets the signals that end this process. Returns its status and the
/// end of its standard error.
async fn ended(client: Command) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut client = tokio::process::Command::from(client);
    let mut child = client.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let said = Arc::new(Mutex::new(Vec::new()));
    let copying = child.stderr.take().map(|stderr| tokio::spawn(copy(stderr, Arc::clone(&said))));
    let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    let pass = |signal| pid.map_or(Ok(()), |pid| kill(pid, signal));
    let status = loop {
        // One that has just ended gets no signal, and is seen in the next round.
        let _ = tokio::select! {
            status = child.wait() => break status?,
            _ = terminate.recv() => pass(Signal::SIGTERM),
            _ = hangup.recv() => pass(Signal::SIGHUP),
        };
    };
    if let Some(copying) = copying {
        // A shared connection may keep it open.
        let _ = timeout(REST, copying).await;
    }
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((status, said))
}

fn client(host: &DaemonHost, line: &str, is_terminal: bool) -> Command {
    let mut command = Command::new(ssh::CLIENT);
    let arguments = host.remote.arguments(line).into_iter();
    // The first option of all calls refuses a terminal.
    let refusal = usize::from(is_terminal);
    command.args(is_terminal.then_some("-t")).args(arguments.skip(refusal));
    command
}

/// Copies bytes to standard error as they come, and keeps the end of them.
async fn copy(mut from: ChildStderr, said: Arc<Mutex<Vec<u8>>>) {
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let piece = &piece[..count];
        // Without a reader here, the command there still must not block.
        let _ = io::stderr().write_all(piece).and_then(|()| io::stderr().flush());
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(piece);
        let excess = said.len().saturating_sub(MAX_SAID_BYTES);
        said.drain(..excess);
    }
}

/// The exit code of the command there, unless it is one of the way there.
fn code(host: &DaemonHost, status: ExitStatus, said: &[u8]) -> Result<u8> {
    // The command may have begun there, so it is not for a repetition.
    let failed = |failure: DialFailure<'_>| {
        let failure = Failure::from(failure.error(host)).not_retryable();
        let look = format!("it may have begun there: look with `subagent --host {} ls`", host.name);
        Err(failure.with("started", "maybe").recommend(look))
    };
    match status.code() {
        Some(NO_FOLDER) => {
            let message = format!("the folder of the command is not on the host `{}`", host.name);
            Err(Failure::argument(message)
                .with("host", host.name.as_str())
                .recommend("name a folder there with --cwd, or correct it in the config file"))
        }
        // The shell there has found no program.
        Some(code @ (126 | 127)) => Err(DialFailure::Exited(Some(code), said).error(host).into()),
        Some(ssh::CLIENT_FAILED) => failed(DialFailure::Exited(Some(ssh::CLIENT_FAILED), said)),
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => failed(DialFailure::Exited(None, said)),
    }
}

fn unusable(host: &DaemonHost, error: &io::Error) -> Failure {
    DialFailure::NoClient(&error.to_string()).error(host).into()
}

/// The line of a shell there that becomes the command.
fn line(
    args: &[OsString],
    (host, default): (&DaemonHost, FolderThere),
    typed: &TypedFlags,
    read: LineReader,
) -> Result<String> {
    let cwd = folder(host, default, typed)?;
    let args = without_host(args, read)?;
    let mut words = Vec::with_capacity(args.len());
    let mut is_cwd = false;
    for arg in &args {
        let arg = arg.to_str().ok_or_else(|| {
            Failure::argument("an argument for another host must be UTF-8 text")
                .with("host", host.name.as_str())
        })?;
        let inline = arg.strip_prefix("--cwd=").filter(|value| *value == cwd);
        words.push(match inline {
            Some(value) => format!("--cwd={}", ssh::path_word(value)),
            None if is_cwd && arg == cwd => ssh::path_word(arg),
            None => shell_words::quote(arg).into_owned(),
        });
        is_cwd = arg == CWD_FLAG;
    }
    let program = host.program.as_deref().unwrap_or("subagent");
    let line = format!(
        "cd {} || exit {NO_FOLDER}; exec {} {}",
        ssh::path_word(&cwd),
        ssh::path_word(program),
        words.join(" ")
    );
    Ok(format!("exec \"$SHELL\" -lc {}", shell_words::quote(&line)))
}

/// The folder there: that of this machine means nothing there.
fn folder(host: &DaemonHost, default: FolderThere, typed: &TypedFlags) -> Result<String> {
    let is_absolute = |path: &str| path.starts_with('/') || path == "~" || path.starts_with("~/");
    let refused = |message: String| {
        Failure::argument(message)
            .with("host", host.name.as_str())
            .recommend(format!("add --cwd with a folder on `{}`: absolute, or ~/...", host.name))
    };
    match typed.cwd().or(host.cwd.as_deref()) {
        Some(cwd) if is_absolute(cwd) => Ok(cwd.to_owned()),
        Some(cwd) => {
            Err(refused(format!("`{cwd}` is no folder on the host `{}`: it is relative", host.name)))
        }
        None if default == FolderThere::Home => Ok("~".to_owned()),
        None => Err(refused(format!("the command needs a folder on the host `{}`", host.name))),
    }
}

/// The arguments without the flag that names the host, which has no meaning there.
fn without_host(args: &[OsString], read: LineReader) -> Result<Vec<OsString>> {
    let mut rest = Vec::with_capacity(args.len());
    let (mut all, mut is_over) = (args.iter(), false);
    while let Some(arg) = all.next() {
        is_over |= arg == "--";
        let bytes = arg.as_encoded_bytes();
        match bytes.strip_prefix(HOST_FLAG.as_bytes()) {
            Some([]) if !is_over => drop(all.next()),
            Some([b'=', ..]) if !is_over => {}
            _ => rest.push(arg.clone()),
        }
    }
    // A text may look like the flag: then the command is another one without it.
    match (read(args), read(&rest)) {
        (Some(typed), Some(left)) if typed == left => Ok(rest),
        _ => Err(Failure::argument("a text looks like the flag --host")
            .recommend("send the text with --text-stdin, or name the host with SUBAGENT_HOST")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use subagent_protocol::placement::ssh::RemoteHost;

    use super::super::host_use::described;
    use super::super::parse;
    use super::*;

    fn lap(cwd: Option<&str>) -> DaemonHost {
        let remote = RemoteHost { host: "me@lap".into(), args: Vec::new() };
        DaemonHost { name: "lap".into(), remote, cwd: cwd.map(str::to_owned), program: None }
    }

    fn line_of(words: &[&str], cwd: Option<&str>) -> Result<String> {
        let args: Vec<OsString> = words.iter().map(Into::into).collect();
        let (_, typed) = parse(args.iter().cloned()).unwrap();
        line(&args, (&lap(cwd), FolderThere::Named), &typed, described)
    }

    /// The words that a shell makes of the line.
    fn words_there(line: &str) -> Vec<String> {
        let script =
            line.replace("exec \"$SHELL\" -lc", "exec sh -c").replace("exec subagent", "printf \"%s\\n\"");
        let output = Command::new("sh").env("HOME", "/").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{script}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn no_shell_changes_an_argument() {
        let hostile = "a'b\"c$(id)`id`;\\ |& ~/x *";
        let line = line_of(&["--host", "lap", "run", "demo", hostile, "--cwd", "/tmp"], None).unwrap();
        assert_eq!(words_there(&line), ["run", "demo", hostile, "--cwd", "/tmp"]);
        let home = line_of(&["run", "--host=lap", "--cwd=~/tmp", "demo", "~/tmp"], None).unwrap();
        assert_eq!(words_there(&home), ["run", "--cwd=//tmp", "demo", "~/tmp"], "{home}");
        assert!(Path::new("/tmp").is_dir());
    }

    #[test]
    fn the_folder_is_one_there() {
        let run = ["run", "--host", "lap", "demo", "x"];
        for refused in [line_of(&run, None), line_of(&[&run[..], &["--cwd", "src"]].concat(), None)] {
            let failure = refused.unwrap_err();
            assert!(failure.details["recommendedAction"].as_str().unwrap().contains("--cwd"), "{failure}");
        }
        assert!(line_of(&run, Some("~/src")).unwrap().contains("$HOME"));
        // What only looks at the machine there needs none.
        let args = ["doctor", "--host", "lap"].map(OsString::from);
        let (_, typed) = parse(args.iter().cloned()).unwrap();
        let at_home = line(&args, (&lap(None), FolderThere::Home), &typed, described).unwrap();
        assert!(at_home.contains("$HOME") && at_home.contains("doctor"), "{at_home}");
    }

    #[test]
    fn a_text_that_looks_like_the_flag_is_not_lost() {
        let args = ["run", "--text", "--host", "--host", "lap", "--cwd", "/tmp"];
        assert!(line_of(&args, None).unwrap_err().message.contains("looks like"));
        let behind =
            line_of(&["run", "--host", "lap", "--cwd", "/tmp", "--", "demo", "--host"], None).unwrap();
        assert_eq!(words_there(&behind), ["run", "--cwd", "/tmp", "--", "demo", "--host"]);
    }
}
