//! Runs a shape. Outside a test it does not end.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::poll::{PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, Signal, raise, signal};
use nix::sys::wait::wait;
use nix::unistd::{ForkResult, Pid, fork, pause, setpgid, setsid};

use super::Registry;
use super::grammar::{Own, ProcessShape, ProcessStep};

/// Lifetime of a process in a chain: long enough for the machine to do other work.
const LINK: Duration = Duration::from_millis(3);

/// Runs this shape in this process and joins its registry; does not return.
pub fn play(registry: &Path, text: &str) -> ! {
    let shape = ProcessShape::parse(text).unwrap_or_else(|| panic!("no shape: {text}"));
    steps(registry, &shape);
    std::process::exit(0)
}

/// Runs the steps of one process. Its forks do not return from here.
fn steps(registry: &Path, shape: &ProcessShape) {
    Registry::join(registry);
    for (index, step) in shape.0.iter().enumerate() {
        match step {
            ProcessStep::Fork(shape) => child(|| steps(registry, shape)),
            ProcessStep::DoubleFork(shape) => {
                child(|| child(|| steps(registry, shape)));
                // It does not matter which child ended.
                let _ = wait();
            }
            ProcessStep::Own(own) => {
                let rest = || ProcessShape(shape.0[index + 1..].to_vec());
                own_step(*own, registry, rest);
            }
        }
    }
}

fn own_step(own: Own, registry: &Path, rest: impl FnOnce() -> ProcessShape) {
    // A refused change (a group leader cannot lead a session) leaves the process as it is, which is
    // a valid shape too.
    match own {
        Own::Session => _ = setsid(),
        Own::Group => _ = setpgid(Pid::from_raw(0), Pid::from_raw(0)),
        Own::Ignore => ignore(),
        Own::Block => SigSet::all().thread_block().unwrap(),
        Own::Wipe => become_another(registry, &rest(), true),
        Own::Exec => become_another(registry, &rest(), false),
        Own::Close => (0..256).for_each(|descriptor| _ = nix::unistd::close(descriptor)),
        Own::Leave => std::env::set_current_dir("/").unwrap(),
        Own::Rename => prctl::set_name(&CString::new("kworker/0:1").unwrap()).unwrap(),
        Own::Hide => prctl::set_dumpable(false).unwrap(),
        Own::Reaper => prctl::set_child_subreaper(true).unwrap(),
        Own::Daemonise => {
            step_on();
            let _ = setsid();
            step_on();
            std::env::set_current_dir("/").unwrap();
            Registry::join(registry);
        }
        Own::Stay => stay(),
        Own::Chain => loop {
            rest_a_little();
            step_on();
            Registry::join(registry);
        },
        Own::Respawn => loop {
            child(|| {
                Registry::join(registry);
                rest_a_little();
            });
            let _ = wait();
        },
        Own::Stop => {
            raise(Signal::SIGSTOP).unwrap();
            stay();
        }
    }
}

#[allow(unsafe_code)]
fn ignore() {
    for ignored in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        // SAFETY: ignoring a signal runs no code.
        unsafe { signal(ignored, SigHandler::SigIgn) }.unwrap();
    }
}

fn stay() -> ! {
    loop {
        pause();
    }
}

fn rest_a_little() {
    let _ = poll(&mut [], PollTimeout::try_from(LINK.as_millis()).unwrap());
}

/// Runs the rest as the same program with another name.
fn become_another(registry: &Path, rest: &ProcessShape, wiped: bool) {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("-").arg("--tree").arg(registry).arg(rest.to_string());
    if wiped {
        command.env_clear();
    }
    let error: io::Error = command.exec();
    panic!("{error}");
}

/// Runs `job` in a child.
#[allow(unsafe_code)]
fn child(job: impl FnOnce()) {
    // SAFETY: this program has one thread.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        job();
        std::process::exit(0);
    }
}

/// Continues in a child and ends this process.
#[allow(unsafe_code)]
fn step_on() {
    // SAFETY: as in `child`.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { .. }) => std::process::exit(0),
        Ok(ForkResult::Child) | Err(_) => {}
    }
}
