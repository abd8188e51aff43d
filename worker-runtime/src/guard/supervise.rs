//! The guard's process: waits for the runtime, signals and children, and carries out the effects of
//! the state. Decides nothing; [`super::state`] does. Linux only.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

pub(super) use super::ending::end_descendants;
use super::ending::{Pause, SETTLE, timeout};
use super::inherited::{self, Inherited};
use super::options::GuardOptions;
use super::reap::{self, Reaped};
use super::signals::{self, SignalRequest};
use super::state::{GuardEffect, GuardInput, GuardState, step};
use super::status::GuardStatus;
use super::tree::{self, DescendantTree};
use super::{END, TERMINATE, spawn};

/// Maximum number of surviving processes inspected for the report.
const MAX_REPORTED: usize = 64;

/// Runs the guard to its end. Returns when the tree is gone, or if nothing was started.
///
/// # Errors
///
/// Its descriptors are wrong; nothing was started.
pub(super) fn run(options: GuardOptions) -> io::Result<()> {
    let Inherited { life, mut status, lock, proxy } = inherited::take(options.proxy)?;
    let (signals, null) = match prepare() {
        Ok(prepared) => prepared,
        Err((what, errno)) => {
            report(
                &mut status,
                &GuardStatus::SpawnFailed { errno: errno as i32, message: format!("{what}: {errno}") },
            );
            return Ok(());
        }
    };
    if hung_up(&life) {
        report(&mut status, &GuardStatus::Clean { killed: 0, millis: 0 });
        return Ok(());
    }
    let agent = match spawn::agent(&options, proxy.as_ref()) {
        Ok(agent) => agent,
        Err(error) => {
            let message = format!("cannot start {}: {error}", options.command.display());
            report(
                &mut status,
                &GuardStatus::SpawnFailed { errno: error.raw_os_error().unwrap_or(0), message },
            );
            return Ok(());
        }
    };
    drop(options);
    let_go_of_stdio(&null);
    drop(null);
    report(&mut status, &GuardStatus::Spawned { pid: agent });
    let mut guard = Guard {
        state: GuardState::Running { agent },
        life,
        status,
        signals,
        started: Instant::now(),
        _lock: lock,
        _proxy: proxy,
    };
    guard.run_until_ending();
    guard.end();
    Ok(())
}

/// Sets up the guard's process: name, own session, subreaper, blocked signals.
fn prepare() -> Result<(SignalFd, File), (&'static str, Errno)> {
    prctl::set_name(c"subagent-guard").map_err(|errno| ("prctl(PR_SET_NAME)", errno))?;
    // Fails for a group leader, when started by hand.
    let _ = setsid();
    prctl::set_child_subreaper(true).map_err(|errno| ("prctl(PR_SET_CHILD_SUBREAPER)", errno))?;
    let signals = signals::take_over().map_err(|errno| ("signalfd", errno))?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| ("/dev/null", Errno::from_raw(error.raw_os_error().unwrap_or(0))))?;
    Ok((signals, null))
}

/// True if the writer of the life pipe is gone: no process would read the agent's output.
fn hung_up(life: &File) -> bool {
    let mut fds = [PollFd::new(life.as_fd(), PollFlags::POLLIN)];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    poll(&mut fds, PollTimeout::ZERO).is_ok()
        && fds[0].revents().is_some_and(|events| events.intersects(gone))
}

/// Releases the agent's pipes, so that their end means the agent's end, and its cwd, so that
/// it can be unmounted.
fn let_go_of_stdio(null: &File) {
    // Cannot fail with open descriptors. Even then the agent runs and must be guarded.
    let _ = dup2_stdin(null);
    let _ = dup2_stdout(null);
    let _ = dup2_stderr(null);
    let _ = chdir("/");
}

/// A reader that is gone is not an error: the life pipe reports the runtime's end.
fn report(status: &mut File, line: &GuardStatus) {
    if let Ok(mut line) = serde_json::to_vec(line) {
        line.push(b'\n');
        let _ = status.write_all(&line);
    }
}

struct Guard {
    state: GuardState,
    life: File,
    status: File,
    signals: SignalFd,
    started: Instant,
    /// The lock is held until the process ends.
    _lock: OwnedFd,
    /// The proxy serves the sandbox until the process ends.
    _proxy: Option<OwnedFd>,
}

impl Guard {
    fn run_until_ending(&mut self) {
        while matches!(self.state, GuardState::Running { .. }) {
            let mut fds = [
                PollFd::new(self.life.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            let result = poll(&mut fds, PollTimeout::NONE);
            let [life, signals] = fds.map(|fd| fd.any().unwrap_or(true));
            match result {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                // Without these events the guard cannot watch the tree, so it ends the tree.
                Err(_) => return self.apply(GuardInput::EndAsked),
            }
            if life {
                self.hear_the_runtime();
            }
            if signals {
                self.hear_signals();
            }
        }
    }

    fn hear_the_runtime(&mut self) {
        let mut bytes = [0; 16];
        match self.life.read(&mut bytes) {
            Ok(0) => self.apply(GuardInput::EndAsked),
            Ok(length) => {
                for byte in &bytes[..length] {
                    match *byte {
                        TERMINATE => self.apply(GuardInput::TerminateAsked),
                        END => self.apply(GuardInput::EndAsked),
                        // A byte of a newer runtime.
                        _ => {}
                    }
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(_) => self.apply(GuardInput::EndAsked),
        }
    }

    fn hear_signals(&mut self) {
        if signals::drain(&self.signals) == SignalRequest::End {
            self.apply(GuardInput::EndAsked);
        }
        self.reap();
    }

    /// Reaps all ended children. Returns true if there was at least one.
    fn reap(&mut self) -> bool {
        let mut any = false;
        loop {
            match reap::next(None) {
                Reaped::Child { pid, exit } => self.apply(GuardInput::Reaped { pid, exit }),
                Reaped::NothingYet => return any,
                Reaped::NoneLeft => {
                    self.apply(GuardInput::NoneLeft);
                    return any;
                }
            }
            any = true;
        }
    }

    /// Kills descendants in a loop until none is left.
    fn end(&mut self) {
        if subagent_failpoint::sabotaged("guard.spare") {
            return report(&mut self.status, &GuardStatus::Clean { killed: 0, millis: 0 });
        }
        let tree = DescendantTree::below_self(&[]);
        let mut pause = Pause::new();
        loop {
            self.reap();
            let GuardState::Ending { reported_incomplete, .. } = self.state else { return };
            if reported_incomplete {
                pause.be_patient();
            }
            let found = tree.sweep();
            self.apply(GuardInput::StillLeft(tree::alive(found).take(MAX_REPORTED).collect()));
            self.settle(pause.next());
        }
    }

    /// Reaps while processes keep ending, until none did for the length of `pause`.
    fn settle(&mut self, pause: Duration) {
        let until = Instant::now() + pause.max(SETTLE);
        while matches!(self.state, GuardState::Ending { .. }) && Instant::now() < until {
            let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, timeout(pause)) != Ok(1) {
                return;
            }
            // A request to end is being carried out already.
            let _ = signals::drain(&self.signals);
            self.reap();
        }
    }

    fn apply(&mut self, input: GuardInput) {
        let (state, effects) = step(self.state, input, self.started.elapsed());
        self.state = state;
        for effect in effects {
            match effect {
                GuardEffect::Terminate(agent) => terminate(Pid::from_raw(agent)),
                GuardEffect::Report(line) => report(&mut self.status, &line),
            }
        }
    }
}

/// Sends SIGTERM to the agent's group, and SIGCONT, because a stopped process could not react.
///
/// The agent is not reaped yet, so its pid and group id are not reused.
fn terminate(agent: Pid) {
    for signal in [Signal::SIGTERM, Signal::SIGCONT] {
        // It may have moved to another group itself.
        if killpg(agent, signal).is_err() {
            let _ = kill(agent, signal);
        }
    }
}
