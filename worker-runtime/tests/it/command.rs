//! `subagent-runtime command`: one command of the user, its deadline, and the end of all its
//! processes. The proof that none is left is the end of file of a pipe whose write end every
//! process of the command holds.

use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::command_run::{CommandEnd, CommandResult, CommandRun};

use crate::support::{TIMEOUT, example};

/// A run with the pipe that all its processes hold.
struct CommandRunProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

fn command(folder: &Path, argv: &[&str]) -> CommandRun {
    let bytes = |text: &str| Bytes64(text.as_bytes().to_vec());
    CommandRun {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        cwd: folder.to_owned(),
        env: vec![(bytes("PATH"), bytes(&std::env::var("PATH").unwrap())), (bytes("WORD"), bytes("héllo"))],
        stdin: String::new(),
        timeout_ms: 60_000,
        max_output_bytes: 1000,
    }
}

impl CommandRunProcess {
    fn start(script: &str, change: impl FnOnce(&mut CommandRun)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut run = command(folder.path(), &["sh", "-c", script]);
        change(&mut run);
        nix::unistd::mkfifo(&folder.path().join("held"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut child = Command::new(example("runtime"))
            .arg("command")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut line = serde_json::to_vec(&run).unwrap();
        line.push(b'\n');
        stdin.write_all(&line).unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin: Some(stdin), stdout, folder }
    }

    fn result(&mut self) -> CommandResult {
        let mut line = String::new();
        readable(self.stdout.get_ref());
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Opens the pipe `held`, once a process of the command has it open for writing.
    fn witness(&self) -> fs::File {
        witness(self.folder.path())
    }
}

impl Drop for CommandRunProcess {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

fn witness(folder: &Path) -> fs::File {
    let held =
        fs::File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(folder.join("held")).unwrap();
    readable(&held);
    held
}

fn readable(pipe: &impl AsFd) {
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(TIMEOUT).unwrap();
    assert_eq!(poll(&mut fds, timeout), Ok(1), "nothing came within {TIMEOUT:?}");
}

/// Reads the pipe to its end: then no process holds it.
fn assert_gone(mut held: fs::File) {
    let mut bytes = [0; 4096];
    loop {
        readable(&held);
        if held.read(&mut bytes).unwrap() == 0 {
            return;
        }
    }
}

fn end(script: &str) -> CommandEnd {
    CommandRunProcess::start(script, |_| {}).result().end
}

#[test]
fn the_end_and_both_outputs_are_reported() {
    let mut run =
        CommandRunProcess::start("cat; echo \"$WORD\" >&2; pwd; exit 7", |run| run.stdin = "in\n".into());
    let result = run.result();
    assert_eq!(result.end, CommandEnd::Exited { code: 7 });
    let folder = fs::canonicalize(run.folder.path()).unwrap();
    assert_eq!(result.stdout, format!("in\n{}\n", folder.display()));
    assert_eq!((result.stderr.as_str(), result.truncated), ("héllo\n", false));
    assert_eq!(end("kill -9 $$"), CommandEnd::Signaled { signal: 9 });
    assert_eq!(end("kill -PIPE $$"), CommandEnd::Signaled { signal: 13 });
}

#[test]
fn only_the_given_environment_is_there() {
    let result =
        CommandRunProcess::start("env | cut -d= -f1 | grep -vx 'PWD\\|SHLVL\\|_\\|OLDPWD' | sort", |_| {})
            .result();
    assert_eq!(result.stdout, "PATH\nWORD\n");
}

#[test]
fn an_output_without_end_is_cut_and_ends_at_the_deadline() {
    let started = Instant::now();
    let mut run = CommandRunProcess::start("yes", |run| run.timeout_ms = 300);
    let result = run.result();
    assert_eq!((result.end, result.truncated), (CommandEnd::TimedOut, true));
    assert_eq!(result.stdout, "y\n".repeat(500));
    assert!(started.elapsed() >= Duration::from_millis(300));
    let mut run = CommandRunProcess::start("yes | head -c 5000000 >&2", |_| {});
    let result = run.result();
    assert_eq!((result.end, result.stderr.len()), (CommandEnd::Exited { code: 0 }, 1000));
}

#[test]
fn nothing_is_left_after_the_deadline() {
    let script = "exec 3>held; echo begun >&3; trap '' TERM HUP; (setsid sleep 1000 &) ; sleep 1000";
    let mut run = CommandRunProcess::start(script, |run| run.timeout_ms = 500);
    let held = run.witness();
    assert_eq!(run.result().end, CommandEnd::TimedOut);
    assert_gone(held);
}

#[test]
fn detached_processes_are_gone_after_its_end() {
    let script = "exec 3>held; echo begun >&3; (setsid sh -c 'sleep 1000' &); echo out";
    let mut run = CommandRunProcess::start(script, |_| {});
    let held = run.witness();
    let result = run.result();
    assert_eq!((result.end, result.stdout.as_str()), (CommandEnd::Exited { code: 0 }, "out\n"));
    assert_gone(held);
}

#[test]
fn a_failed_start_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for argv in [vec![file], vec!["no-such-program"], vec![]] {
        let mut run =
            CommandRunProcess::start("", |run| run.argv = argv.iter().map(|&word| word.to_owned()).collect());
        assert!(matches!(run.result().end, CommandEnd::NotStarted { .. }), "{argv:?}");
    }
    let CommandEnd::NotStarted { error } =
        CommandRunProcess::start("", |run| run.cwd = "/no/such".into()).result().end
    else {
        panic!("it was started")
    };
    assert!(error.contains("/no/such"), "{error}");
}

#[test]
fn an_input_that_is_not_read_holds_nothing_up() {
    let long = "x".repeat(1_000_000);
    let mut run = CommandRunProcess::start("exec <&-; echo done", |run| run.stdin.clone_from(&long));
    assert_eq!((run.result().end, run.stdin.is_some()), (CommandEnd::Exited { code: 0 }, true));
    let mut run = CommandRunProcess::start("wc -c", |run| run.stdin = long);
    assert_eq!(run.result().stdout.trim(), "1000000");
}

#[test]
fn the_end_of_the_caller_ends_the_command() {
    let script = "exec 3>held; echo begun >&3; (setsid sleep 1000 &); sleep 1000";
    let mut run = CommandRunProcess::start(script, |_| {});
    let held = run.witness();
    run.stdin = None;
    assert_gone(held);
    let mut said = String::new();
    run.stdout.read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), run.child.wait().unwrap().code()), ("", Some(0)));
}

#[test]
fn a_caller_that_is_killed_leaves_nothing() {
    // The substitute for a daemon holds the other end of the run's standard input.
    let folder = tempfile::tempdir().unwrap();
    let script = "exec 3>held; echo begun >&3; (setsid sleep 1000 &); sleep 1000";
    let mut line = serde_json::to_vec(&command(folder.path(), &["sh", "-c", script])).unwrap();
    line.push(b'\n');
    nix::unistd::mkfifo(&folder.path().join("held"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (reader, mut writer): (PipeReader, _) = io::pipe().unwrap();
    writer.write_all(&line).unwrap();
    let mut run =
        Command::new(example("runtime")).arg("command").stdin(reader).stdout(Stdio::null()).spawn().unwrap();
    let mut daemon = Command::new("sleep").arg("60").stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    let held = witness(folder.path());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_gone(held);
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_that_is_killed_takes_the_command_along() {
    let script = "exec 3>held; echo begun >&3; exec sleep 1000";
    let mut run = CommandRunProcess::start(script, |_| {});
    let held = run.witness();
    run.child.kill().unwrap();
    assert_gone(held);
}

#[test]
fn a_signal_ends_the_command_first() {
    let script = "exec 3>held; echo begun >&3; (setsid sleep 1000 &); sleep 1000";
    let mut run = CommandRunProcess::start(script, |_| {});
    let held = run.witness();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(run.child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_gone(held);
    assert_eq!(run.child.wait().unwrap().code(), Some(0));
}
