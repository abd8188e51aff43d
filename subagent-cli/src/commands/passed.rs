//! Runs a command on another host: that host's own `subagent`, through the user's ssh client. So its
//! files, config, launchers and environment are those of the host, and nothing of this machine
//! goes there but the arguments and standard input.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::hosts::{DaemonHost, DialFailure};
use subagent_protocol::placement::client::MAX_SAID_BYTES;
use subagent_protocol::placement::ssh;

use crate::client::HostLink;
use crate::command_line::TypedFlags;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Returns what a command line means.
pub(crate) type LineReader = fn(&[OsString]) -> Option<String>;

/// Exit code of the shell line if there is no such folder. No command of `subagent` has it.
const NO_FOLDER: i32 = 125;
/// The flag whose `~` the shell there expands.
const CWD_FLAG: &str = "--cwd";
const HOST_FLAG: &str = "--host";

/// Runs the command that was typed there, with standard input, output, error and exit code.
///
/// # Errors
/// `INVALID_ARGUMENT` without a folder; `HOST_UNREACHABLE`, `HOST_NOT_PREPARED`.
pub(crate) fn run(
    args: &[OsString],
    typed: &TypedFlags,
    link: &HostLink,
    read: LineReader,
) -> Result<CliOutcome> {
    let host = link.host();
    let line = line(args, host, typed, read)?;
    // A question needs the terminal there. Otherwise output and errors stay apart.
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut client = client(host, &line, is_terminal);
    let mut child = client.stderr(Stdio::piped()).spawn().map_err(|error| unusable(host, &error))?;
    let stderr = child.stderr.take();
    let copied = thread::spawn(move || stderr.map(|stderr| copy(stderr, &mut io::stderr())));
    let status = child.wait().map_err(|error| unusable(host, &error))?;
    let said = copied.join().ok().flatten().unwrap_or_default();
    Ok(CliOutcome::Printed(ExitCode::from(code(host, status, &said)?)))
}

/// Runs a command there for the board; returns its data.
///
/// # Errors
/// Those of [`run`], and those of the command.
pub(crate) fn data(
    args: &[OsString],
    typed: &TypedFlags,
    link: &HostLink,
    read: LineReader,
) -> Result<Value> {
    let host = link.host();
    let mut client = client(host, &line(args, host, typed, read)?, false);
    let output = client.stdin(Stdio::null()).output().map_err(|error| unusable(host, &error))?;
    code(host, output.status, &output.stderr)?;
    match serde_json::from_slice(&output.stdout) {
        Ok(PassedAnswer { ok: true, data, .. }) => Ok(data),
        Ok(PassedAnswer { error: Some(failure), .. }) => Err(failure),
        _ => Err(DialFailure::Foreign(&output.stderr).error(host).into()),
    }
}

/// What a command prints with `--json`.
#[derive(Deserialize)]
struct PassedAnswer {
    ok: bool,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    error: Option<Failure>,
}

fn client(host: &DaemonHost, line: &str, is_terminal: bool) -> Command {
    let mut command = Command::new(ssh::CLIENT);
    let arguments = host.remote.arguments(line).into_iter();
    // The first option of all calls refuses a terminal.
    let refusal = usize::from(is_terminal);
    command.args(is_terminal.then_some("-t")).args(arguments.skip(refusal));
    command
}

/// Copies bytes as they come, and returns the end of them.
fn copy(mut from: impl io::Read, to: &mut impl io::Write) -> Vec<u8> {
    let (mut piece, mut said) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut piece) {
        let piece = &piece[..count];
        // Without a reader here, the command there still must not block.
        let _ = to.write_all(piece).and_then(|()| to.flush());
        said.extend_from_slice(piece);
        let excess = said.len().saturating_sub(MAX_SAID_BYTES);
        said.drain(..excess);
    }
    said
}

/// The exit code of the command there, unless it is one of the way there.
fn code(host: &DaemonHost, status: ExitStatus, said: &[u8]) -> Result<u8> {
    let failed = |failure: DialFailure<'_>| Err(failure.error(host).into());
    match status.code() {
        Some(NO_FOLDER) => {
            let message = format!("the folder of the command is not on the host `{}`", host.name);
            Err(Failure::argument(message)
                .with("host", host.name.as_str())
                .recommend("name a folder there with --cwd, or correct it in the config file"))
        }
        Some(code @ (ssh::CLIENT_FAILED | 126 | 127)) => failed(DialFailure::Exited(Some(code), said)),
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => failed(DialFailure::Exited(None, said)),
    }
}

fn unusable(host: &DaemonHost, error: &io::Error) -> Failure {
    DialFailure::NoClient(&error.to_string()).error(host).into()
}

/// The line of a shell there that becomes the command.
fn line(args: &[OsString], host: &DaemonHost, typed: &TypedFlags, read: LineReader) -> Result<String> {
    let cwd = folder(host, typed)?;
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
fn folder(host: &DaemonHost, typed: &TypedFlags) -> Result<String> {
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
        line(&args, &lap(cwd), &typed, described)
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
