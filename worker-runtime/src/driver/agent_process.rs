//! The agent's process as the driver sees it: its pipes, its guard, its output and its end.

use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::process::ProcessId;

use crate::acp::lines::LineSplitter;
use crate::acp::outgoing::Outgoing;
use crate::conversation::Exit;
use crate::guard::ancestry;
use crate::spawn::AgentIo;
use crate::stderr::StderrTail;

/// Maximum length of a status line in bytes: the guard names at most 64 pids.
const STATUS_LINE_BYTES: usize = 16 * 1024;

/// What is known about the agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentExit {
    /// The process is running.
    Running,
    /// The process ended; its output is still being read.
    Pending(Exit),
    /// The conversation knows about the exit.
    Delivered,
}

pub(super) struct AgentProcess {
    pub(super) io: Option<AgentIo>,
    pub(super) guard: Option<ProcessId>,
    pub(super) splitter: LineSplitter,
    pub(super) outgoing: Outgoing,
    pub(super) closes_input: bool,
    pub(super) status_lines: LineSplitter,
    pub(super) tail: StderrTail,
    pub(super) exit: AgentExit,
    /// Number of processes killed, and milliseconds.
    pub(super) clean: Option<(u64, u64)>,
}

impl AgentProcess {
    pub(super) fn new(max_line_bytes: u64) -> Self {
        let limit = usize::try_from(max_line_bytes).map_or(MAX_LINE_BYTES, |limit| limit.min(MAX_LINE_BYTES));
        Self {
            io: None,
            guard: None,
            splitter: LineSplitter::new(limit),
            outgoing: Outgoing::default(),
            closes_input: false,
            status_lines: LineSplitter::new(STATUS_LINE_BYTES),
            tail: StderrTail::default(),
            exit: AgentExit::Running,
            clean: None,
        }
    }

    /// Takes the pipes of the guard, which is running.
    pub(super) fn started(&mut self, io: AgentIo) {
        let pid = i32::try_from(io.guard.id()).unwrap_or_default();
        // Start time 0 where the system does not know it. This value never selects
        // a process to kill.
        self.guard = Some(ProcessId { pid, start_time: ancestry::start_time(pid).unwrap_or_default() });
        self.io = Some(io);
    }

    pub(super) fn drop_input(&mut self) {
        if let Some(io) = &mut self.io {
            io.input = None;
        }
        self.outgoing.clear();
    }

    pub(super) fn signal_guard(&mut self, byte: u8) {
        if let Some(io) = &mut self.io {
            io.signal_guard(byte);
        }
    }

    /// Returns whether its exit may be reported: it has ended, and all its output was read.
    pub(super) fn may_deliver_exit(&self) -> bool {
        let drained = self.io.as_ref().is_none_or(|io| io.output.is_none() && io.errors.is_none());
        drained || !matches!(self.exit, AgentExit::Pending(_))
    }
}
