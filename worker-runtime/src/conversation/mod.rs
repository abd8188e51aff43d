//! One worker's conversation with its agent as a pure state machine. It begins with the agent's
//! start, has a session with turns, and ends with the proof that no process is left. Does no I/O,
//! reads no clock and generates no random numbers.

// Inputs come from the driver; effects go into a batch of records and a list of actions. The
// driver writes the batch first and then carries out the actions in order.

mod children;
mod commands;
mod effects;
mod end;
pub(crate) mod errors;
mod inbound;
mod rate_limits;
mod requests;
mod start;
mod state;
mod tool_calls;
mod turn;
mod turn_end;

pub(crate) use effects::{
    ClientOperationError, ClientOperationResult, ConversationAction, ConversationInput, Cx, Exit, ReplyTo,
    ResolvedRequest, Storage, Timer,
};
pub(crate) use requests::asking::MAX_SHOWN_BYTES;
pub(crate) use state::{Conversation, ConversationConfig};

impl Conversation {
    /// Handles one input; effects go to `cx`.
    pub(crate) fn handle(&mut self, input: ConversationInput<'_>, cx: &mut Cx<'_>) {
        match input {
            ConversationInput::Begin => start::handshake::begin(self, cx),
            ConversationInput::AgentStarted(started) => start::handshake::agent_started(self, &started, cx),
            ConversationInput::SpawnFailed { errno, message } => {
                end::exits::spawn_failed(self, errno, &message, cx)
            }
            ConversationInput::Line(line) => inbound::line(self, line, cx),
            ConversationInput::PipeClosed => end::exits::pipe_closed(self, cx),
            ConversationInput::AgentExited(exit) => end::exits::agent_exited(self, exit, cx),
            ConversationInput::TreeEnded { killed, millis } => {
                end::exits::tree_ended(self, killed, millis, cx)
            }
            ConversationInput::Command { to, command } => commands::command(self, to, command, cx),
            ConversationInput::End { reason } => end::ending::begin_end(self, &reason, cx),
            ConversationInput::CallDone { call, outcome } => requests::calls::done(self, call, outcome, cx),
            ConversationInput::CallFound { call, found } => {
                requests::approvals::call_found(self, call, found, cx)
            }
            ConversationInput::TerminalExited(exited) => requests::calls::terminal_exited(self, &exited, cx),
            ConversationInput::Timer(timer) => self.timer(timer, cx),
            ConversationInput::Storage(storage) => end::ending::storage_changed(self, storage, cx),
        }
    }

    fn timer(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        match timer {
            Timer::Startup => start::handshake::startup_timeout(self, cx),
            Timer::Phase => start::handshake::phase_timeout(self, cx),
            Timer::Replay => start::handshake::replay_paused(self, cx),
            Timer::Option => start::applying::option_timeout(self, cx),
            Timer::Turn => turn::turn_timeout(self, cx),
            Timer::CancelGrace => turn::cancel_ignored(self, cx),
            Timer::StopGrace => end::ending::stop_grace_over(self, cx),
            Timer::StorageFull => end::ending::storage_patience_over(self, cx),
        }
    }
}

#[cfg(test)]
mod definition_tests;
#[cfg(test)]
mod elicitation_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod turn_log;
