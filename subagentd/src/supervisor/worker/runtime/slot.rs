//! What a worker's actor knows of its runtime, alive or not. Must not decide what follows from it.

use std::time::Duration;

use subagent_core::model::{Restart, Worker};
use subagent_core::rules::reasons::{RESTARTED_BY_MANAGER, STOPPED_BY_MANAGER};
use subagent_protocol::Error;
use subagent_protocol::frame::{ELICITATION, RuntimeCommand};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use tokio::time::Instant;

use super::engine_queue::EngineQueue;
use super::live::{
    LiveRuntime, PendingCommand, SAY_AGAIN, TERMINATE_TIMEOUT, TERMINATE_UNRESPONSIVE_TIMEOUT,
};
use super::revival::Revivals;
use crate::or_never::or_never;
use crate::store::WorkerRow;
use crate::supervisor::runtimes::place::{RuntimeExit, RuntimePlace};

/// The place of a worker's runtime. The fields of the last one remain until the next one starts.
pub(crate) struct RuntimeSlot {
    /// Where runtimes are started and reached.
    pub(crate) place: RuntimePlace,
    pub(crate) live: Option<LiveRuntime>,
    /// Whether the actor knows the state of its runtime.
    pub(crate) settled: bool,
    pub(crate) incarnation: u64,
    pub(crate) boot_id: Option<String>,
    /// The boot of the machine that a placed worker's place is on, as far as is known.
    pub(crate) place_boot: Option<String>,
    /// Whether a runtime may be alive according to the store.
    pub(crate) may_live: bool,
    pub(crate) stored_process: Option<ProcessId>,
    pub(crate) stored_guard: Option<ProcessId>,
    /// Whether the newest record of the runtime is the guard's proof.
    pub(crate) clean_end: bool,
    /// Whether stray processes of the last runtime were searched without that proof.
    pub(crate) swept: bool,
    pub(crate) leftovers: LeftoverCheck,
    pub(crate) revivals: Revivals,
    /// The engine's queue, where the next runtime waits for its place.
    pub(crate) queue: EngineQueue,
    /// Why this daemon may change nothing at the place.
    pub(crate) fenced: Option<Error>,
}

impl RuntimeSlot {
    pub(crate) fn of(row: &WorkerRow, place: RuntimePlace) -> Self {
        Self {
            place,
            live: None,
            settled: false,
            incarnation: row.incarnation,
            boot_id: row.runtime.boot_id.clone(),
            place_boot: None,
            may_live: row.runtime.may_live,
            stored_process: row.runtime.process,
            stored_guard: row.runtime.guard,
            clean_end: false,
            swept: false,
            leftovers: LeftoverCheck::default(),
            revivals: Revivals::default(),
            queue: EngineQueue::default(),
            fenced: None,
        }
    }

    /// Returns the present boot of the machine that the runtime is on; `None` if it is unknown.
    pub(crate) fn present_boot<'a>(&'a self, here: &'a str) -> Option<&'a str> {
        if self.place.is_placed() { self.place_boot.as_deref() } else { Some(here) }
    }

    /// Returns whether the runtime was started in the present boot of its machine.
    pub(crate) fn is_of_this_boot(&self, here: &str) -> bool {
        self.boot_id.is_some() && self.boot_id.as_deref() == self.present_boot(here)
    }

    /// Returns whether the runtime's processes are on this machine and outside of a container or pod, so
    /// that their pids mean something.
    pub(crate) fn is_here(&self, here: &str) -> bool {
        self.boot_id.as_deref() == Some(here) && !self.place.has_own_pids()
    }

    /// Returns the process of the live runtime.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        self.exit().and_then(RuntimeExit::process)
    }

    fn exit(&self) -> Option<&RuntimeExit> {
        let running = self.live.as_ref().filter(|runtime| !runtime.ended);
        running.and_then(|runtime| runtime.exit.as_ref())
    }

    /// Waits until the process of the runtime has ended, if it is known to run.
    pub(crate) async fn ended(&self) {
        or_never(self.exit().map(RuntimeExit::ended)).await;
    }

    /// Returns whether commands reach the runtime now.
    pub(crate) fn listens(&self) -> bool {
        self.live.as_ref().is_some_and(LiveRuntime::listens)
    }

    /// Returns whether a runtime is alive that does not have this capability.
    pub(crate) fn lacks(&self, capability: &str) -> bool {
        self.live.as_ref().is_some_and(|runtime| !runtime.can(capability))
    }

    /// Returns whether the runtime takes answers to elicitations, as far as is known.
    pub(crate) fn takes_elicitations(&self) -> bool {
        self.live.as_ref().is_none_or(|runtime| !runtime.greeted || runtime.can(ELICITATION))
    }

    /// Sends a command. If that is not possible, it is sent after the next hello.
    pub(crate) fn command(&mut self, command: RuntimeCommand) {
        let (asked, point) = match &command {
            RuntimeCommand::Prompt { turn, .. } => {
                (PendingCommand::Prompt { turn: *turn }, "dispatch.before_send")
            }
            RuntimeCommand::Answer { request_id, .. }
            | RuntimeCommand::AnswerElicitation { request_id, .. } => {
                (PendingCommand::Answer { request_id: request_id.clone() }, "answer.before_send")
            }
            RuntimeCommand::Cancel { turn, .. } => {
                (PendingCommand::Cancel { turn: *turn }, "cancel.before_send")
            }
            RuntimeCommand::SetOptions { request, .. } => {
                (PendingCommand::Set { request: request.clone() }, "options.before_send")
            }
            RuntimeCommand::Terminate { .. } => (PendingCommand::Terminate, "terminate.before_send"),
            RuntimeCommand::Hibernate { .. } => (PendingCommand::Hibernate, "hibernate.before_send"),
            // Sent by `child_cancel`, which waits for the answer.
            RuntimeCommand::CancelChild { .. } => return,
        };
        if self.live.as_ref().is_some_and(|runtime| runtime.greeted) {
            subagent_failpoint::hit(point);
        }
        self.send(command, asked);
    }

    /// Sends a command, and remembers its subject until the answer.
    pub(crate) fn send(&mut self, command: RuntimeCommand, asked: PendingCommand) {
        if let Some(runtime) = &mut self.live {
            runtime.send(command, asked);
        }
    }

    /// Ends the runtime of a worker that stops or restarts.
    pub(crate) fn terminate(&mut self, worker: &Worker) {
        let reason = match worker.restart {
            Restart::Wanted => RESTARTED_BY_MANAGER,
            Restart::None | Restart::Begun => STOPPED_BY_MANAGER,
        };
        self.command(RuntimeCommand::Terminate { reason: reason.to_owned() });
        let Some(runtime) = &mut self.live else { return };
        let is_silent = runtime.unresponsive || runtime.reach.is_silent();
        let patience = if is_silent { TERMINATE_UNRESPONSIVE_TIMEOUT } else { TERMINATE_TIMEOUT };
        runtime.kill_at.get_or_insert(Instant::now() + patience);
    }

    /// Ends the runtime for another reason. The runtime may miss the command, which is not repeated.
    pub(crate) fn terminate_for(&mut self, reason: &str) {
        self.command(RuntimeCommand::Terminate { reason: reason.to_owned() });
        self.ends_soon();
    }

    /// Limits the time of a runtime that has agreed to end, so that it does not delay its
    /// successor.
    pub(crate) fn ends_soon(&mut self) {
        if let Some(runtime) = &mut self.live {
            runtime.kill_at.get_or_insert(Instant::now() + TERMINATE_TIMEOUT);
        }
    }

    /// Schedules a new connection, after which everything is sent again.
    pub(crate) fn say_again_later(&mut self) {
        if let Some(runtime) = &mut self.live {
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + SAY_AGAIN);
        }
    }

    /// Handles a live runtime that refuses this daemon. Orders are accepted, as for an unresponsive
    /// one.
    pub(crate) fn not_served(&mut self) {
        self.settled = true;
        if let Some(runtime) = &mut self.live {
            runtime.unresponsive = true;
        }
        self.say_again_later();
    }

    /// Kills a runtime that did not end in time.
    pub(crate) fn kill(&mut self, worker: &WorkerId) {
        let Some(runtime) = &mut self.live else { return };
        runtime.kill_at = None;
        // The hello after a silence says that it is to end.
        if let Some(exit) = runtime.exit.as_ref().filter(|_| !runtime.reach.is_silent()) {
            tracing::warn!(%worker, "a runtime did not end in time and is killed");
            subagent_failpoint::hit("runtime.before_kill");
            exit.kill();
        }
    }

    /// Handles a live runtime that has not answered in time. Orders are accepted: they are stored,
    /// and sent when the runtime answers.
    pub(crate) fn is_silent(&mut self, worker: &WorkerId, is_to_end: bool) {
        let Some(runtime) = &mut self.live else { return };
        runtime.answer_by = None;
        // A place that does not answer says nothing about its runtime.
        runtime.unresponsive = !runtime.reach.is_silent();
        self.settled = true;
        // An earlier daemon may have ended it, and this daemon cannot.
        if runtime.kill_at.is_some() || is_to_end {
            runtime.kill_at = Some(Instant::now() + TERMINATE_UNRESPONSIVE_TIMEOUT);
        }
        if runtime.unresponsive {
            tracing::warn!(%worker, "a runtime is alive but does not answer");
        }
    }

    /// Schedules another look at a runtime whose lock is held although its process has ended.
    pub(crate) fn look_again(&mut self) {
        if let Some(runtime) = &mut self.live {
            runtime.exit = None;
        }
        self.say_again_later();
    }
}

/// The next check whether all processes of a stopped worker have ended. Its delay doubles each time, up
/// to a limit.
#[derive(Default)]
pub(crate) struct LeftoverCheck {
    pub(crate) at: Option<Instant>,
    pause: Duration,
}

impl LeftoverCheck {
    pub(crate) fn again(&mut self, longest: Duration) {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(1), longest);
        self.at = Some(Instant::now() + self.pause);
    }
}
