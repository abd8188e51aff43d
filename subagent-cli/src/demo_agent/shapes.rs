//! The hostile process trees of `!spawn`: what an agent may leave behind, played by copies of this program.
//!
//! Each process appends its pid to the pid file and lives until it is killed, or until that file is
//! deleted, so that a test that failed to kill it does not leave it behind for ever.

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

/// How often a survivor looks whether its pid file is still there.
const LOOK: Duration = Duration::from_millis(100);
/// How long one link of the `forker` chain lives.
const LINK: Duration = Duration::from_millis(2);

/// One kind of process that tries to outlive its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Forked twice, in a session of its own.
    Daemon,
    /// Deaf to SIGTERM, SIGHUP and SIGINT.
    IgnoreTerm,
    /// A chain: each link forks the next after 2 ms and exits.
    Forker,
    /// Started with an empty environment, and not dumpable (its `/proc` files belong to root).
    WipeEnv,
    /// Keeps the agent's stdin, stdout and stderr open.
    HoldPipes,
}

impl Shape {
    /// Every shape, in the order of `!spawn all`.
    pub(super) const ALL: [Self; 5] =
        [Self::Daemon, Self::IgnoreTerm, Self::Forker, Self::WipeEnv, Self::HoldPipes];

    /// The word used in scripts and in the internal flag.
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

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|shape| shape.name() == text).ok_or_else(|| {
            format!("unknown shape {text}; known: daemon, ignore-term, forker, wipe-env, hold-pipes, all")
        })
    }
}

/// Runs one of the left-behind processes until it is killed or its pid file is gone.
pub(super) fn live(shape: Shape, pids: &Path) -> ExitCode {
    match live_inner(shape, pids) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if this fails too.
            let _ = writeln!(io::stderr(), "demo-agent: !spawn {}: {error}", shape.name());
            ExitCode::FAILURE
        }
    }
}

fn live_inner(shape: Shape, pids: &Path) -> io::Result<()> {
    match shape {
        Shape::Daemon => {
            if split()? == Side::Parent {
                return Ok(());
            }
            setsid()?;
            if split()? == Side::Parent {
                return Ok(());
            }
        }
        Shape::IgnoreTerm => {
            let deaf: SigSet = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT].into_iter().collect();
            deaf.thread_block()?;
        }
        Shape::Forker => return chain(pids),
        Shape::WipeEnv => prctl::set_dumpable(false)?,
        Shape::HoldPipes => {}
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
        if split()? == Side::Parent {
            return Ok(());
        }
    }
    Ok(())
}

/// Appends this process's pid; fails if the file is gone, so that a deleted file ends everything.
fn write_pid(pids: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).open(pids)?.write_all(format!("{}\n", id()).as_bytes())
}

#[derive(PartialEq, Eq)]
enum Side {
    Parent,
    Child,
}

fn split() -> io::Result<Side> {
    // A forked child of a process with threads may find locks held for ever.
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has threads and cannot fork"));
    }
    // SAFETY: the process has one thread, which was checked above, so the child may do whatever its parent may.
    #[allow(unsafe_code)]
    let side = unsafe { fork() }?;
    Ok(match side {
        ForkResult::Parent { .. } => Side::Parent,
        ForkResult::Child => Side::Child,
    })
}
