//! Selects the next process to kill or stop. A guard is killed only while its runtime lives, and a
//! runtime only while its guard lives (or nothing was started yet). Killing both before either can
//! react is another fault, in `one_stroke.rs`.

use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Random, TestSandbox};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Daemon,
    Runtime,
    Guard,
    Agent,
    DaemonAndRuntime,
    /// The end of a stream at a placed worker.
    Stream,
    /// The client of a connection to another machine.
    Client,
    /// The other machine's side of a connection with a stream.
    Connection,
}

impl Victim {
    /// Returns a process of this kind, or the two together; empty while there is none.
    pub(crate) fn find(self, sandbox: &TestSandbox, random: &mut Random) -> Vec<Process> {
        let all = sandbox.processes();
        let named = |name: &'static str| all.iter().filter(move |process| process.name == name);
        let one = |found: Vec<&Process>, random: &mut Random| -> Vec<Process> {
            if found.is_empty() { Vec::new() } else { vec![(*random.pick(&found)).clone()] }
        };
        let is = |pid: i32, name: &str| {
            named("subagent-runtim")
                .chain(named("subagent-guard"))
                .any(|process| process.pid == pid && process.name == name)
        };
        match self {
            Self::Daemon => one(named("subagentd").collect(), random),
            Self::Runtime => {
                let guarded = |runtime: &&Process| {
                    let mut below = all.iter().filter(|process| process.parent == runtime.pid).peekable();
                    below.peek().is_none() || below.any(|child| child.name == "subagent-guard")
                };
                one(named("subagent-runtim").filter(guarded).collect(), random)
            }
            Self::Guard => {
                let watched = |guard: &&Process| is(guard.parent, "subagent-runtim");
                one(named("subagent-guard").filter(watched).collect(), random)
            }
            Self::Agent => {
                let agent = |process: &&Process| {
                    is(process.parent, "subagent-guard") && !process.command_line().contains("--spawned")
                };
                one(all.iter().filter(agent).collect(), random)
            }
            Self::Client => one(named("ssh").collect(), random),
            Self::Connection => {
                let streams = named("subagent-dial").filter_map(|dial| Process::find(dial.parent));
                let sessions: Vec<Process> = streams.filter(|one| one.name.starts_with("sshd")).collect();
                one(sessions.iter().collect(), random)
            }
            Self::Stream => one(named("subagent-dial").collect(), random),
            Self::DaemonAndRuntime => {
                let mut both = Self::Daemon.find(sandbox, random);
                let runtime = Self::Runtime.find(sandbox, random);
                if both.is_empty() || runtime.is_empty() {
                    return Vec::new();
                }
                both.extend(runtime);
                both
            }
        }
    }
}
