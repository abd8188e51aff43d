//! Counts system calls of a command, or of a running process, with `strace`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use subagent_tests::harness::{Output, Running, TestSandbox};

/// Calls whose number depends on scheduling or on the allocator.
const WAKING_AND_MEMORY: &[&str] = &[
    "futex",
    "epoll_wait",
    "restart_syscall",
    "sched_yield",
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "mremap",
    "rt_sigprocmask",
    "rt_sigreturn",
    "getpid",
    "gettid",
];

/// The observed calls: one line each, with the paths of the descriptors.
pub(crate) struct Calls(Vec<String>);

impl Calls {
    fn read(file: PathBuf) -> Self {
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        let call = |line: &str| -> Option<String> {
            // `PID name(arguments` occurs complete, or unfinished until a later line.
            let call = line.split_once(' ')?.1.trim_start();
            call.starts_with(|first: char| first.is_ascii_lowercase()).then(|| call.to_owned())
        };
        Self(text.lines().filter_map(call).collect())
    }

    fn count(&self, counts: impl Fn(&str, &str) -> bool) -> f64 {
        let split = |call: &String| call.split_once('(').is_some_and(|(name, rest)| counts(name, rest));
        f64::from(u32::try_from(self.0.iter().filter(|call| split(call)).count()).unwrap())
    }

    /// Returns the number of deterministic calls, without wakeups and memory.
    pub(crate) fn steady(&self) -> f64 {
        self.count(is_steady)
    }

    /// The same without `/proc`, where the number depends on the caller's ancestors.
    pub(crate) fn steady_but_proc(&self) -> f64 {
        self.count(|name, rest| is_steady(name, rest) && !rest.contains("/proc/"))
    }

    /// Returns the number of all calls, for a process with one thread.
    pub(crate) fn all(&self) -> f64 {
        self.count(|_, _| true)
    }

    pub(crate) fn of(&self, names: &[&str]) -> f64 {
        self.count(|name, _| names.contains(&name))
    }

    /// Returns the number of calls whose arguments contain this text.
    pub(crate) fn about(&self, name: &str, text: &str) -> f64 {
        self.count(|called, rest| (name.is_empty() || called == name) && rest.contains(text))
    }

    /// Returns the number of each deterministic call, to find out what changed.
    pub(crate) fn histogram(&self) -> String {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, rest) in self.0.iter().filter_map(|call| call.split_once('(')) {
            if is_steady(name, rest) {
                *counts.entry(name).or_default() += 1;
            }
        }
        counts.iter().map(|(name, count)| format!("{name} {count}, ")).collect()
    }
}

fn is_steady(name: &str, rest: &str) -> bool {
    // A write to an eventfd wakes a thread.
    !(WAKING_AND_MEMORY.contains(&name) || (name == "write" && rest.contains("[eventfd]")))
}

/// Runs `subagent ARGS --json` under `strace`.
#[track_caller]
pub(crate) fn command(sandbox: &TestSandbox, args: &[&str]) -> (Output, Calls) {
    let file = sandbox.file("command.strace");
    let traced = sandbox.command("strace").args(["-f", "-y", "-o"]).args([&file]);
    let output = traced.args([sandbox.executable("subagent").as_str()]).args(args).args(["--json"]).run();
    (output, Calls::read(file))
}

/// An `strace` attached to a running process.
pub(crate) struct AttachedStrace {
    strace: Running,
    file: PathBuf,
}

impl AttachedStrace {
    /// Attaches to all threads of the process; `None` if the kernel forbids it.
    pub(crate) fn to(sandbox: &TestSandbox, name: &str, pid: i32) -> Option<Self> {
        let file = sandbox.file(&format!("{name}.strace"));
        let script = "exec strace -f -y -o \"$1\" -p \"$2\" 2>&1";
        let args = ["-c", script, "sh", file.to_str().unwrap(), &pid.to_string()];
        let strace = sandbox.command("sh").args(args).spawn();
        let attached = strace.wait_line("attached, or why not", |line| {
            if line.contains("attached") { Some(true) } else { line.contains("ptrace").then_some(false) }
        });
        attached.then_some(Self { strace, file })
    }

    /// Detaches and returns the calls made meanwhile.
    pub(crate) fn end(self) -> Calls {
        self.strace.signal(Signal::SIGINT);
        let _ = self.strace.output();
        Calls::read(self.file)
    }
}
