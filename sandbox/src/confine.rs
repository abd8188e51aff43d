//! `confine SANDBOX -- COMMAND ARGS...`: becomes the command, inside the sandbox.
//!
//! With bubblewrap it becomes that first, which starts it again inside of the namespaces: Landlock forbids to mount, so it
//! comes last. Must not run anything that the agent chose before everything is applied.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::thread::{CapabilitySet, CapabilitySets};
use subagent_protocol::sandbox::Sandbox;

use super::{COMMAND_ENV, CONFINE, bubblewrap, calls, rules};

/// The exit code when the sandbox cannot be applied.
const NOT_CONFINED: u8 = 126;
/// The exit code when the command cannot be started in it.
const NOT_STARTED: u8 = 127;
/// In place of the sandbox's text, ahead of it: the namespaces are made.
const INSIDE: &str = "--inside";

/// Runs it; `args` are those after `confine`. Returns only when something failed.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(call) = Call::of(args) else { return failed(NOT_CONFINED, "it is started by the guard alone") };
    let confined = match &call.sandbox.layers.bubblewrap {
        Some(program) if !call.inside => enter(&call, program),
        _ => apply(&call),
    };
    match confined {
        Err(error) => failed(NOT_CONFINED, &format!("the sandbox cannot be applied: {error}")),
        Ok(error) => {
            failed(NOT_STARTED, &format!("cannot start {} in the sandbox: {error}", call.command.display()))
        }
    }
}

fn failed(code: u8, message: &str) -> ExitCode {
    // An error that cannot be written to stderr is lost; the exit code remains.
    let _ = writeln!(io::stderr(), "subagent: {message}");
    ExitCode::from(code)
}

struct Call {
    inside: bool,
    text: OsString,
    sandbox: Sandbox,
    command: OsString,
    args: Vec<OsString>,
}

impl Call {
    fn of(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut text = args.next()?;
        let inside = text == INSIDE;
        if inside {
            text = args.next()?;
        }
        let sandbox = serde_json::from_slice(text.as_bytes()).ok()?;
        if args.next()? != "--" {
            return None;
        }
        Some(Self { inside, text, sandbox, command: args.next()?, args: args.collect() })
    }

    /// The path that must be readable for the command to start, also outside of the listed readable paths.
    fn needed(&self) -> Option<PathBuf> {
        let program = Path::new(&self.command);
        program.is_absolute().then(|| program.canonicalize().ok()).flatten()
    }
}

/// Becomes bubblewrap, which starts this program inside. Gives why that failed.
fn enter(call: &Call, program: &Path) -> io::Result<io::Error> {
    make_written(&call.sandbox);
    let own = File::open("/proc/self/exe")?;
    keep_open(&own)?;
    // SIGTERM is for the agent. Bubblewrap would end at once and take it along.
    set_sigterm(SigHandler::SigIgn)?;
    let cwd = std::env::current_dir()?;
    // By the descriptor: inside, its path may be hidden or another file by now.
    let again = format!("/proc/self/fd/{}", own.as_raw_fd());
    let error = Command::new(program)
        .args(bubblewrap::arguments(&call.sandbox, &cwd, call.needed().as_slice())?)
        .args(["--", &again, CONFINE, INSIDE])
        .arg(&call.text)
        .arg("--")
        .arg(&call.command)
        .args(&call.args)
        .exec();
    Err(io::Error::new(error.kind(), format!("cannot start {}: {error}", program.display())))
}

/// Confines this process and becomes the command. Gives why it could not be started.
fn apply(call: &Call) -> io::Result<io::Error> {
    if !call.inside {
        make_written(&call.sandbox);
    }
    set_sigterm(SigHandler::SigDfl)?;
    close_others()?;
    drop_capabilities()?;
    if let Some(version) = call.sandbox.layers.landlock {
        rules::apply(&call.sandbox, version, call.needed().as_slice())?;
    }
    calls::apply(call.sandbox.spec.network)?;
    let mut command = Command::new(&call.command);
    command.args(&call.args);
    for (name, value) in std::env::vars_os() {
        let bare = name.as_bytes().strip_prefix(COMMAND_ENV.as_bytes()).map(OsStr::from_bytes);
        if let Some(bare) = bare.filter(|bare| !bare.is_empty()) {
            command.env(bare, value).env_remove(&name);
        }
    }
    Ok(command.exec())
}

/// Makes folders that may be written and are not there yet: an agent that may write only in them could not.
fn make_written(sandbox: &Sandbox) {
    for path in &sandbox.spec.write {
        // It is there, or the user could not make it either: then there is nothing to write to.
        let _ = std::fs::create_dir(path);
    }
}

#[allow(unsafe_code)]
fn set_sigterm(handler: SigHandler) -> io::Result<()> {
    // SAFETY: no handler of ours runs: the signal is ignored, or has the system's own action.
    unsafe { signal(Signal::SIGTERM, handler) }?;
    Ok(())
}

fn keep_open(file: &File) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Closes everything but the standard streams when the command starts: a descriptor needs no path.
#[allow(unsafe_code)]
fn close_others() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // SAFETY: used for one fcntl(), which answers EBADF if it is not open; that of the listing is closed by now.
        let _ = fcntl(unsafe { BorrowedFd::borrow_raw(fd) }, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    Ok(())
}

/// Gives up every capability for good: root's agents would load a kernel module, read a disk, or leave by a namespace.
fn drop_capabilities() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    rustix::thread::clear_ambient_capability_set()?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}
