//! The command's process: feeds and reads it, and waits for its end, the deadline
//! or the caller's end.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{getpid, getppid, setsid};
use subagent_protocol::command_run::{CommandEnd, CommandResult, CommandRun};

use super::END_ROUND;
use super::output::CapturedOutput;
use crate::guard;
use crate::guard::signals::{self, SignalRequest};

/// Maximum length of one wait: `poll` counts milliseconds in 31 bits.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// The outcome of a command.
pub(super) enum CommandOutcome {
    /// The command has ended.
    Ended(CommandResult),
    /// The caller no longer wants the result.
    Abandoned,
}

/// The running command with its pipes.
pub(super) struct RunningCommand<'a> {
    child: Child,
    stdin: Option<ChildStdin>,
    to_write: &'a [u8],
    stdout: CapturedOutput<ChildStdout>,
    stderr: CapturedOutput<ChildStderr>,
    /// `None` means never: the deadline exceeds the clock's range.
    deadline: Option<Instant>,
}

impl<'a> RunningCommand<'a> {
    /// Starts the command with its pipes.
    ///
    /// # Errors
    ///
    /// The system's error, as text.
    pub(super) fn start(run: &'a CommandRun) -> Result<Self, String> {
        let deadline = Instant::now().checked_add(Duration::from_millis(run.timeout_ms));
        let Some((program, args)) = run.argv.split_first() else {
            return Err("the command is empty".to_owned());
        };
        if !run.cwd.is_dir() {
            return Err(format!("its working directory {} is not there", run.cwd.display()));
        }
        let mut command = Command::new(program);
        command.args(args).current_dir(&run.cwd).env_clear();
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        command.envs(run.env.iter().map(|(name, value)| (text(&name.0), text(&value.0))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        before_exec(&mut command);
        let failed = |error: io::Error| format!("cannot start {program}: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pipes = [stdin.as_ref().map(AsFd::as_fd), stdout.as_ref().map(AsFd::as_fd)];
        for pipe in pipes.into_iter().chain([stderr.as_ref().map(AsFd::as_fd)]).flatten() {
            // This cannot fail for a pipe. A blocking pipe could make us miss the deadline.
            if let Err(error) = never_block(pipe) {
                let _ = guard::end_descendants(END_ROUND, &[]);
                return Err(failed(error.into()));
            }
        }
        Ok(Self {
            child,
            stdin,
            to_write: run.stdin.as_bytes(),
            stdout: CapturedOutput::new(stdout, run.max_output_bytes),
            stderr: CapturedOutput::new(stderr, run.max_output_bytes),
            deadline,
        })
    }

    /// Waits for the end and then ends every descendant.
    pub(super) fn until_end(mut self, signals: &SignalFd) -> CommandOutcome {
        let Some(end) = self.wait(signals) else {
            let _ = guard::end_descendants(END_ROUND, &[]);
            return CommandOutcome::Abandoned;
        };
        let _ = guard::end_descendants(END_ROUND, &[]);
        // The pipes now contain everything that their writers have written.
        while self.stdout.take() {}
        while self.stderr.take() {}
        let (stdout, long) = self.stdout.text();
        let (stderr, longer) = self.stderr.text();
        CommandOutcome::Ended(CommandResult { end, stdout, stderr, truncated: long || longer })
    }

    /// Returns how the command ended; `None` if the caller is gone.
    fn wait(&mut self, signals: &SignalFd) -> Option<CommandEnd> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(end_of(status)),
                Ok(None) => {}
                // The command is our child, and only this code reaps it before the end.
                Err(error) => return Some(CommandEnd::NotStarted { error: error.to_string() }),
            }
            let left = match self.deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()).min(MAX_WAIT),
                None => MAX_WAIT,
            };
            if left.is_zero() {
                return Some(CommandEnd::TimedOut);
            }
            if self.settle(signals, left) == CallerState::Gone {
                return None;
            }
        }
    }

    /// Waits for the next event and handles it.
    fn settle(&mut self, signals: &SignalFd, at_most: Duration) -> CallerState {
        let caller = io::stdin();
        let mut fds = vec![
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(caller.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.stdin.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)));
        fds.extend(self.stdout.pipe.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.stderr.pipe.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        // Rounds up, so that a wait never spins.
        let millis = at_most.as_micros().div_ceil(1000);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            // A command that cannot be watched is ended.
            Err(_) => return CallerState::Gone,
        }
        let caller_moved = fds[1].any().unwrap_or(true);
        drop(fds);
        self.feed();
        self.stdout.take();
        self.stderr.take();
        if signals::drain(signals) == SignalRequest::End || (caller_moved && hung_up(&caller)) {
            return CallerState::Gone;
        }
        CallerState::Waits
    }

    /// Writes as much as the pipe accepts. Does not wait for a command that ignores its input.
    fn feed(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        while !self.to_write.is_empty() {
            match pipe.write(self.to_write) {
                Ok(written @ 1..) => self.to_write = &self.to_write[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => break,
            }
        }
        self.stdin = None;
    }
}

#[derive(PartialEq, Eq)]
enum CallerState {
    Waits,
    Gone,
}

/// Whether the caller has closed its end. Further input has no meaning.
fn hung_up(caller: &io::Stdin) -> bool {
    match caller.lock().read(&mut [0; 256]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != io::ErrorKind::Interrupted,
    }
}

fn never_block(pipe: BorrowedFd<'_>) -> nix::Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

fn end_of(status: ExitStatus) -> CommandEnd {
    match status.code() {
        Some(code) => CommandEnd::Exited { code },
        None => CommandEnd::Signaled { signal: status.signal().unwrap_or(0) },
    }
}

/// Own session, no blocked signals, and killed together with this process.
#[allow(unsafe_code)]
fn before_exec(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        setsid()?;
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Err(Errno::ESRCH.into());
        }
        SigSet::empty().thread_set_mask()?;
        Ok(())
    };
    // SAFETY: only system calls, no allocation, no lock. This process has one thread, so fork left no lock held.
    unsafe { command.pre_exec(prepare) };
}
