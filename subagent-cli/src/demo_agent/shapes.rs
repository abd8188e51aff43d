//! The hostile processes of `!spawn` that an agent may leave behind. Copies of this program play
//! them. Each process appends its pid to the pid file and lives until it is killed or that file is
//! deleted, so that a failed test leaves no process.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitCode, id};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, fork, setsid};

/// Interval for checking that the pid file exists.
const LOOK: Duration = Duration::from_millis(100);
/// Lifetime of one link of the `forker` chain.
const LINK: Duration = Duration::from_millis(2);

/// A kind of process that tries to outlive its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpawnShape {
    /// Forks twice, in its own session.
    Daemon,
    /// Ignores SIGTERM, SIGHUP and SIGINT.
    IgnoreTerm,
    /// A chain: each link forks the next one after 2 ms and exits.
    Forker,
    /// Starts with an empty environment and is not dumpable (its `/proc` files belong to root).
    WipeEnv,
    /// Keeps the agent's stdin, stdout and stderr open.
    HoldPipes,
}

impl SpawnShape {
    /// All shapes, in the order of `!spawn all`.
    pub(super) const ALL: [Self; 5] =
        [Self::Daemon, Self::IgnoreTerm, Self::Forker, Self::WipeEnv, Self::HoldPipes];

    /// The word in scripts and in the internal flag.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::IgnoreTerm => "ignore-term",
            Self::Forker => "forker",
            Self::WipeEnv => "wipe-env",
            Self::HoldPipes => "hold-pipes",
        }
    }
}

impl FromStr for SpawnShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|shape| shape.name() == text).ok_or_else(|| {
            format!("unknown shape {text}; known: daemon, ignore-term, forker, wipe-env, hold-pipes, all")
        })
    }
}

/// Runs such a process until it is killed or its pid file is gone.
pub(super) fn live(shape: SpawnShape, pids: &Path) -> ExitCode {
    match live_inner(shape, pids) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr cannot report an error.
            let _ = writeln!(io::stderr(), "demo-agent: !spawn {}: {error}", shape.name());
            ExitCode::FAILURE
        }
    }
}

fn live_inner(shape: SpawnShape, pids: &Path) -> io::Result<()> {
    match shape {
        SpawnShape::Daemon => {
            if split()? == ForkSide::Parent {
                return Ok(());
            }
            setsid()?;
            if split()? == ForkSide::Parent {
                return Ok(());
            }
        }
        SpawnShape::IgnoreTerm => {
            let deaf: SigSet = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT].into_iter().collect();
            deaf.thread_block()?;
        }
        SpawnShape::Forker => return chain(pids),
        SpawnShape::WipeEnv => prctl::set_dumpable(false)?,
        SpawnShape::HoldPipes => {}
    }
    write_pid(pids)?;
    while pids.exists() {
        thread::sleep(LOOK);
    }
    Ok(())
}

fn chain(pids: &Path) -> io::Result<()> {
    while write_pid(pids).is_ok() {
        thread::sleep(LINK);
        if split()? == ForkSide::Parent {
            return Ok(());
        }
    }
    Ok(())
}

/// Appends this process's pid. Fails if the file is gone, so that deleting it ends all processes.
fn write_pid(pids: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).open(pids)?.write_all(format!("{}\n", id()).as_bytes())
}

#[derive(PartialEq, Eq)]
enum ForkSide {
    Parent,
    Child,
}

fn split() -> io::Result<ForkSide> {
    // In a forked child of a process with threads, a lock may stay held.
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has threads and cannot fork"));
    }
    // SAFETY: the process has one thread, as checked above, so the child may run any code.
    #[allow(unsafe_code)]
    let side = unsafe { fork() }?;
    Ok(match side {
        ForkResult::Parent { .. } => ForkSide::Parent,
        ForkResult::Child => ForkSide::Child,
    })
}
