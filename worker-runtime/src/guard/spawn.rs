//! Starts the agent.
//!
//! Must not leave the agent anything of the guard's: signal mask, process group, descriptors above 2.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};
use nix::unistd::write;

use super::options::Options;
use super::{COMMAND_ENV, OWN_EXECUTABLE};

/// So much earlier than the runtime the kernel takes an agent when memory runs out.
const OOM_SCORE_RAISE: i32 = 300;
const OOM_SCORE_MAX: i32 = 1000;

/// Starts the agent in a process group of its own, with the guard's descriptors 0, 1 and 2, and gives its pid.
///
/// The caller reaps it: the handle of the standard library is dropped, which neither waits nor kills.
///
/// # Errors
/// The system's error of fork, of a limit, or of exec.
pub(super) fn agent(options: &Options) -> io::Result<i32> {
    let mut command = command(options);
    command.process_group(0);
    before_exec(&mut command, options);
    // What is armed is armed in the guard, not in what an agent may run.
    for (name, _) in subagent_failpoint::armed_with() {
        command.env_remove(name);
    }
    subagent_failpoint::check("agent.before_spawn")?;
    let child = command.spawn()?;
    subagent_failpoint::hit("agent.after_spawn");
    i32::try_from(child.id()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// The agent itself, or this program, which becomes the agent inside its sandbox.
fn command(options: &Options) -> Command {
    if let Some(sandbox) = &options.sandbox {
        let mut command = Command::new(OWN_EXECUTABLE);
        command.arg0("subagent-runtime");
        command.args(subagent_sandbox::arguments(sandbox, &options.command, &options.args));
        return command;
    }
    let mut command = Command::new(&options.command);
    command.args(&options.args);
    for (name, value) in std::env::vars_os() {
        let bare = name.as_bytes().strip_prefix(COMMAND_ENV.as_bytes()).map(OsStr::from_bytes);
        if let Some(bare) = bare.filter(|bare| !bare.is_empty()) {
            command.env(bare, value).env_remove(&name);
        }
    }
    command
}

/// What the agent gets and the guard does not: limits, its place in the queue of the OOM killer, and an empty mask.
///
/// All between fork and exec: what the agent starts first has it too, and the guard's own signals stay blocked.
#[allow(unsafe_code)]
fn before_exec(command: &mut Command, options: &Options) {
    let (mode, nofile) = (options.umask.map(Mode::from_bits_truncate), options.nofile);
    let oom_score = raised_oom_score();
    let prepare = move || {
        if let Some(mode) = mode {
            umask(mode);
        }
        if let Some(soft) = nofile {
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
            setrlimit(Resource::RLIMIT_NOFILE, soft.min(hard), hard)?;
        }
        // Best effort: a kernel or container that refuses it refuses a convenience.
        let _ = write_oom_score(oom_score.as_bytes());
        // Last: from here on a signal may end the agent, as it should.
        SigSet::empty().thread_set_mask()?;
        Ok(())
    };
    // SAFETY: only system calls, no allocation, no lock; and the guard has one thread, so fork left none held.
    unsafe { command.pre_exec(prepare) };
}

fn raised_oom_score() -> String {
    let own = fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|text| text.trim().parse().ok());
    own.unwrap_or(0_i32).saturating_add(OOM_SCORE_RAISE).min(OOM_SCORE_MAX).to_string()
}

fn write_oom_score(score: &[u8]) -> Result<(), Errno> {
    let file = open(c"/proc/self/oom_score_adj", OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, score).map(drop)
}
