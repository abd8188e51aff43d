//! Starts a guard as the runtime does, and inspects it from outside.
//!
//! Every wait has a limit. All processes end with their [`Guarded`].

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subagent_runtime::guard::GuardStatus;

/// Time limit for every wait of a test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A guard as its runtime sees it.
pub(crate) struct Guarded {
    pub(crate) child: Child,
    /// The agent's pid; 0 if the test did not wait for the start.
    pub(crate) agent: i32,
    pub(crate) stdin: Option<PipeWriter>,
    pub(crate) stdout: BufReader<Bounded>,
    pub(crate) stderr: Bounded,
    life: Option<PipeWriter>,
    status: Option<BufReader<Bounded>>,
    folder: tempfile::TempDir,
}

impl Guarded {
    /// Starts a guard with this command as its agent.
    pub(crate) fn start<T: AsRef<str>>(command: &[T]) -> Self {
        let mut arguments = vec![example("guard"), "--".to_owned()];
        arguments.extend(command.iter().map(|argument| argument.as_ref().to_owned()));
        let mut guarded = Self::start_with(&arguments);
        match guarded.next_status() {
            GuardStatus::Spawned { pid } => guarded.agent = pid,
            other => panic!("{other:?}"),
        }
        guarded
    }

    /// Starts this command line unchanged, with a guard's descriptors.
    pub(crate) fn start_with<T: AsRef<str>>(arguments: &[T]) -> Self {
        let (life, held) = io::pipe().unwrap();
        Self::launch(arguments, life, Some(held))
    }

    /// The same with a life pipe that has ended already.
    pub(crate) fn start_abandoned<T: AsRef<str>>(arguments: &[T]) -> Self {
        let (life, _) = io::pipe().unwrap();
        Self::launch(arguments, life, None)
    }

    fn launch<T: AsRef<str>>(arguments: &[T], life: PipeReader, held: Option<PipeWriter>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lock = File::create(folder.path().join("guard.lock")).unwrap();
        lock.try_lock().unwrap();
        let (stdin, to_stdin) = io::pipe().unwrap();
        let (from_stdout, stdout) = io::pipe().unwrap();
        let (from_stderr, stderr) = io::pipe().unwrap();
        let (from_status, status) = io::pipe().unwrap();
        let mut command = Command::new(arguments[0].as_ref());
        command.args(arguments[1..].iter().map(AsRef::as_ref)).stdin(stdin).stdout(stdout).stderr(stderr);
        let mapping = |parent_fd: OwnedFd, child_fd| FdMapping { parent_fd, child_fd };
        let fds = vec![mapping(life.into(), 3), mapping(status.into(), 4), mapping(lock.into(), 5)];
        command.fd_mappings(fds).unwrap();
        Self {
            child: command.spawn().unwrap(),
            agent: 0,
            stdin: Some(to_stdin),
            stdout: BufReader::new(Bounded(from_stdout)),
            stderr: Bounded(from_stderr),
            life: held,
            status: Some(BufReader::new(Bounded(from_status))),
            folder,
        }
    }

    pub(crate) fn close_life(&mut self) {
        self.life = None;
    }

    pub(crate) fn drop_status(&mut self) {
        self.status = None;
    }

    /// Writes to the life pipe.
    pub(crate) fn say(&mut self, byte: u8) {
        self.life.as_mut().unwrap().write_all(&[byte]).unwrap();
    }

    pub(crate) fn signal_guard(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub(crate) fn next_status(&mut self) -> GuardStatus {
        let mut line = String::new();
        self.status.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Returns all further lines until the guard's end.
    pub(crate) fn rest_of_status(&mut self) -> Vec<GuardStatus> {
        let text = read_to_end(self.status.as_mut().unwrap());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Reads the guard's last status and returns its `(killed, millis)`.
    pub(crate) fn assert_clean(&mut self) -> (u32, u64) {
        let statuses = self.rest_of_status();
        let Some(GuardStatus::Clean { killed, millis }) = statuses.last() else { panic!("{statuses:?}") };
        let count = statuses.iter().filter(|status| **status == GuardStatus::Ending).count();
        assert_eq!(count, 1, "{statuses:?}");
        self.assert_exit(0);
        assert!(self.lock_is_free());
        (*killed, *millis)
    }

    pub(crate) fn assert_exit(&mut self, code: i32) {
        assert_eq!(self.child.wait().unwrap().code(), Some(code));
    }

    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn await_lines(&mut self, count: usize) {
        take_lines(&mut self.stdout, count);
    }

    /// For an agent that is `cat`.
    pub(crate) fn assert_echoes(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"echo\n").unwrap();
        assert_eq!(self.next_line(), "echo\n");
    }

    /// Waits until no process holds stderr. Returns how long that took.
    pub(crate) fn assert_gone(&mut self, bound: Duration) -> Duration {
        let started = Instant::now();
        let mut said = String::new();
        loop {
            let left = bound.saturating_sub(started.elapsed());
            let mut chunk = [0; 4096];
            assert!(self.stderr.readable(left), "still there after {bound:?}; stderr: {said}");
            match self.stderr.0.read(&mut chunk).unwrap() {
                0 => break,
                length => said.push_str(&String::from_utf8_lossy(&chunk[..length])),
            }
        }
        assert_eq!(said, "");
        started.elapsed()
    }

    pub(crate) fn lock_is_free(&self) -> bool {
        self.lock_file().try_lock().is_ok()
    }

    /// Waits until the lock is free.
    pub(crate) fn lock_gets_free(&self, bound: Duration) -> bool {
        let (file, (sender, receiver)) = (self.lock_file(), mpsc::channel());
        thread::spawn(move || sender.send(file.lock().is_ok()));
        receiver.recv_timeout(bound) == Ok(true)
    }

    fn lock_file(&self) -> File {
        File::open(self.folder.path().join("guard.lock")).unwrap()
    }

    /// Returns the voluntary context switches of a sleeping guard.
    pub(crate) fn guard_wakeups(&self) -> String {
        await_state(self.child.id() as i32, "S");
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap().to_owned()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.life = None;
        // A working guard ends with its status pipe; a broken one must not block the tests.
        if let Some(status) = &mut self.status
            && !thread::panicking()
        {
            let _ = read_to_end(status);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a process is in this state, which only polling can detect.
pub(crate) fn await_state(pid: i32, wanted: &str) {
    let started = Instant::now();
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat.rsplit_once(')').unwrap().1.split_whitespace().next() == Some(wanted) {
            return;
        }
        assert!(started.elapsed() < TIMEOUT, "{stat}");
        thread::yield_now();
    }
}

/// A pipe whose reads have a time limit.
pub(crate) struct Bounded(PipeReader);

impl Bounded {
    fn readable(&self, bound: Duration) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(bound.as_millis()).unwrap();
        poll(&mut fds, timeout).unwrap() == 1
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(self.readable(TIMEOUT), "nothing came within {TIMEOUT:?}");
        self.0.read(buffer)
    }
}

pub(crate) fn read_to_end(reader: &mut impl Read) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

/// Reads `count` lines and waits for them if necessary.
pub(crate) fn take_lines(reader: &mut impl BufRead, count: usize) {
    for number in 0..count {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "line {number} of {count}: {line:?}");
    }
}

/// Returns the path of an example of this package, which `cargo test` builds beside the tests.
pub(crate) fn example(name: &str) -> String {
    let me = std::env::current_exe().unwrap();
    let path = me.parent().unwrap().join("../examples").join(name);
    assert!(path.exists(), "{} is not there: build it with `cargo build --examples`", path.display());
    path.to_str().unwrap().to_owned()
}
