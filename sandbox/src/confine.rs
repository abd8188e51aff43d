//! `confine [--proxy FD] SANDBOX -- COMMAND ARGS...`: becomes the command, inside the sandbox. Must
//! not run anything that the agent chose before everything is applied.

// With bubblewrap it becomes that first, which restarts it inside the namespaces: Landlock forbids
// mounts, so it is applied last.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::thread::{CapabilitySet, CapabilitySets};
use subagent_protocol::sandbox::{Network, Sandbox};

use super::{COMMAND_ENV, CONFINE, PROXY, bubblewrap, calls, handover, rules};

/// The exit code if the sandbox cannot be applied.
const NOT_CONFINED: u8 = 126;
/// The exit code if the command cannot be started in the sandbox.
const NOT_STARTED: u8 = 127;
/// An argument before the sandbox's text: the namespaces exist already.
const INSIDE: &str = "--inside";

/// Runs it; `args` follow `confine`. Returns only after a failure.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(call) = ConfineArguments::of(args) else {
        return failed(NOT_CONFINED, "it is started by the guard alone");
    };
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

struct ConfineArguments {
    inside: bool,
    /// The channel to the proxy, which nothing has used yet.
    proxy: Option<RawFd>,
    text: OsString,
    sandbox: Sandbox,
    command: OsString,
    args: Vec<OsString>,
}

impl ConfineArguments {
    fn of(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut text = args.next()?;
        let inside = text == INSIDE;
        if inside {
            text = args.next()?;
        }
        let mut proxy = None;
        if text == PROXY {
            proxy = Some(args.next()?.to_str()?.parse().ok().filter(|fd| *fd > 2)?);
            text = args.next()?;
        }
        let sandbox = serde_json::from_slice(text.as_bytes()).ok()?;
        if args.next()? != "--" {
            return None;
        }
        Some(Self { inside, proxy, text, sandbox, command: args.next()?, args: args.collect() })
    }

    /// The path that must be readable for the command to start, also outside of
    /// the listed readable paths.
    fn needed(&self) -> Option<PathBuf> {
        let program = Path::new(&self.command);
        program.is_absolute().then(|| program.canonicalize().ok()).flatten()
    }
}

/// Becomes bubblewrap, which starts this program inside. Returns why that failed.
fn enter(call: &ConfineArguments, program: &Path) -> io::Result<io::Error> {
    make_written(&call.sandbox);
    let own = File::open("/proc/self/exe")?;
    keep_open(&own)?;
    // SIGTERM is for the agent. Bubblewrap would end at once, together with the agent.
    set_sigterm(SigHandler::SigIgn)?;
    let cwd = std::env::current_dir()?;
    // By descriptor: inside, its path may be hidden or lead to another file.
    let again = format!("/proc/self/fd/{}", own.as_raw_fd());
    let error = Command::new(program)
        .args(bubblewrap::arguments(&call.sandbox, &cwd, call.needed().as_slice())?)
        .args(["--", &again, CONFINE, INSIDE])
        .args(call.proxy.map(|fd| [PROXY.to_owned(), fd.to_string()]).into_iter().flatten())
        .arg(&call.text)
        .arg("--")
        .arg(&call.command)
        .args(&call.args)
        .exec();
    Err(io::Error::new(error.kind(), format!("cannot start {}: {error}", program.display())))
}

/// Confines this process and becomes the command. Returns why it could not be started.
fn apply(call: &ConfineArguments) -> io::Result<io::Error> {
    if !call.inside {
        make_written(&call.sandbox);
    }
    set_sigterm(SigHandler::SigDfl)?;
    let variables = connect_to_proxy(call)?;
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
    command.envs(variables);
    Ok(command.exec())
}

/// Connects the network of this sandbox with the proxy, if it has one. Returns the variables with
/// which programs find it.
#[allow(unsafe_code)]
fn connect_to_proxy(call: &ConfineArguments) -> io::Result<Vec<(&'static str, String)>> {
    let spec = &call.sandbox.spec;
    if spec.network == Network::Hosts && !call.inside {
        return Err(io::Error::other("a network of hosts and ports needs bubblewrap"));
    }
    let Some(fd) = call.proxy else { return Ok(Vec::new()) };
    // SAFETY: the guard passes this descriptor for this use alone. If it is not open, reading fails.
    let channel = unsafe { UnixStream::from_raw_fd(fd) };
    handover::hand_over(channel, &spec.hosts)
}

/// Creates missing writable folders with their parents: an agent that may write only in them could
/// not create them.
fn make_written(sandbox: &Sandbox) {
    for path in &sandbox.spec.write {
        // It exists, or the user could not create it either: then there is nothing to write to.
        let _ = std::fs::create_dir_all(path);
    }
}

#[allow(unsafe_code)]
fn set_sigterm(handler: SigHandler) -> io::Result<()> {
    // SAFETY: no handler of ours runs: the signal is ignored, or has the system's default action.
    unsafe { signal(Signal::SIGTERM, handler) }?;
    Ok(())
}

fn keep_open(file: &File) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Closes everything except the standard streams when the command starts: a
/// descriptor needs no path.
#[allow(unsafe_code)]
fn close_others() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // SAFETY: used for one fcntl(), which returns EBADF if it is not open; that of the listing
        // is closed by now.
        let _ = fcntl(unsafe { BorrowedFd::borrow_raw(fd) }, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    Ok(())
}

/// Drops every capability permanently: root's agents could otherwise load a kernel module, read a
/// disk, or escape by a namespace.
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
