//! A running turn: messages to the client and waits, which end early when the client cancels.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::{DemoAction, DemoAgent, RunningTurn};
use super::inbox::InboxEvent;
use super::updates;
use super::wire::RpcError;

/// Maximum duration of a single wait inside of an endless one (`!hang`).
const LONG: Duration = Duration::from_secs(3600);
/// Maximum size of one message's text for `session/load`, in bytes.
const KEPT_TEXT: usize = 64 * 1024;

/// The reason for an early end of a turn.
pub(super) enum EarlyEnd {
    Cancelled,
    /// `!stop`: end with this stopReason.
    Reason(String),
    /// `!error`: respond to the prompt with an error.
    Error(RpcError),
    /// End the process without a response to the prompt.
    Exit(ExitCode),
    /// Writing to stdout failed.
    Output(io::Error),
}

impl From<io::Error> for EarlyEnd {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// The reaction of the turn to `session/cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelReaction {
    /// The turn ends at the next opportunity.
    Listening,
    /// The turn ignores it until later (`!ignore-cancel`).
    Postponing,
    /// The turn ignores it, and any other orderly end (`!hang`).
    Deaf,
}

/// The event that ended a wait.
pub(super) enum WakeReason {
    /// The client responded to our request.
    Answer { id: u64, result: Result<Value, RpcError> },
    /// A `!shell` command ended.
    Shell { number: u32, report: String },
    /// The timeout has passed.
    TimeOut,
}

/// A message after the response to the prompt.
pub(super) enum Late {
    Chunk,
    /// A line without a conversion.
    Line(String),
}

pub(super) struct DemoTurn<'a> {
    pub(super) agent: &'a mut DemoAgent,
    pub(super) session: String,
    /// Tool calls without a reported end.
    pub(super) open_tools: Vec<String>,
    pub(super) hearing: CancelReaction,
    pub(super) cancel_seen: bool,
    pub(super) history: Vec<Value>,
    pub(super) said: String,
    pub(super) late: Option<Late>,
    pub(super) exit_after: bool,
    /// The token usage in the response to the prompt.
    pub(super) usage: Option<Value>,
}

impl DemoTurn<'_> {
    /// Sends one message chunk and adds it to the history.
    pub(super) fn say(&mut self, text: &str) -> Result<(), EarlyEnd> {
        self.keep(text);
        self.update(updates::message(text))
    }

    /// Sends an update that is not part of the history.
    pub(super) fn update(&mut self, update: Value) -> Result<(), EarlyEnd> {
        Ok(self.agent.out.update(&self.session, update)?)
    }

    /// Sends an update that `session/load` repeats.
    pub(super) fn record(&mut self, update: Value) -> Result<(), EarlyEnd> {
        self.finish_message();
        self.history.push(update.clone());
        self.update(update)
    }

    /// Adds text to the current message of the history, up to [`KEPT_TEXT`].
    pub(super) fn keep(&mut self, text: &str) {
        let room = KEPT_TEXT.saturating_sub(self.said.len());
        self.said.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Adds the current message to the history: all chunks since the last other update.
    pub(super) fn finish_message(&mut self) {
        if !self.said.is_empty() {
            self.history.push(updates::message(&std::mem::take(&mut self.said)));
        }
    }

    pub(super) fn tool(&mut self, kind: &str, title: &str) -> Result<(), EarlyEnd> {
        let id = self.agent.tool_id();
        self.record(updates::tool_call(&id, kind, title, "in_progress"))?;
        self.record(updates::tool_call_end(&id, "completed", &format!("{title}: done")))
    }

    pub(super) fn hang(&mut self) -> Result<(), EarlyEnd> {
        self.hearing = CancelReaction::Deaf;
        loop {
            self.wait(LONG)?;
        }
    }

    pub(super) fn sleep(&mut self, time: Duration) -> Result<(), EarlyEnd> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.wait(left)?;
        }
        Ok(())
    }

    /// Sends unknown update kinds, notifications and requests.
    pub(super) fn unknown(&mut self) -> Result<(), EarlyEnd> {
        self.update(json!({"sessionUpdate": "demo_unknown_update", "payload": {"deep": [1, null, "x"]}}))?;
        let out = &mut self.agent.out;
        out.notification("_demo/unknown_notification", &json!({"sessionId": self.session, "n": 1}))?;
        let id = self.agent.request_id();
        self.agent.out.request(id, "_x/y", &json!({"sessionId": self.session}))?;
        loop {
            if let WakeReason::Answer { id: answered, result } = self.wait(LONG)?
                && answered == id
            {
                return self.say(&match result {
                    Ok(_) => "unknown request: result".to_owned(),
                    Err(error) => format!("unknown request: {}", error.code),
                });
            }
        }
    }

    /// Handles events that have arrived, without waiting.
    pub(super) fn poll(&mut self) -> Result<(), EarlyEnd> {
        while let Some(event) = self.agent.inbox.poll() {
            self.take(event)?;
        }
        self.check_cancel()
    }

    /// Flushes the output, then waits for one event.
    pub(super) fn wait(&mut self, time: Duration) -> Result<WakeReason, EarlyEnd> {
        self.agent.out.flush()?;
        let end = Instant::now() + time;
        loop {
            self.check_cancel()?;
            let left = end.saturating_duration_since(Instant::now());
            let Some(event) = self.agent.inbox.wait(left) else { return Ok(WakeReason::TimeOut) };
            if let Some(woken) = self.take(event)? {
                return Ok(woken);
            }
            self.agent.out.flush()?;
        }
    }

    fn check_cancel(&self) -> Result<(), EarlyEnd> {
        if self.cancel_seen && self.hearing == CancelReaction::Listening {
            Err(EarlyEnd::Cancelled)
        } else {
            Ok(())
        }
    }

    fn take(&mut self, event: InboxEvent) -> Result<Option<WakeReason>, EarlyEnd> {
        let message = match event {
            InboxEvent::InputEnded if self.agent.options.ignore_stdin_eof => return Ok(None),
            InboxEvent::InputEnded => return Err(EarlyEnd::Exit(ExitCode::SUCCESS)),
            InboxEvent::ShellEnded { number, report } => {
                return Ok(Some(WakeReason::Shell { number, report }));
            }
            InboxEvent::Message(message) => message,
        };
        match self.agent.handle(message, RunningTurn::In(&self.session))? {
            // `Run` cannot occur: a prompt during a turn gets an error response.
            DemoAction::Nothing | DemoAction::Run(_) => {}
            DemoAction::Cancel(session) if session == self.session => self.cancel_seen = true,
            // A session that it reported as its own subagent.
            DemoAction::Cancel(session) => self.update(json!({
                "sessionUpdate": "subagent_update", "sessionId": session,
                "state": {"state": "idle", "stopReason": "cancelled"},
            }))?,
            DemoAction::CancelThen(message) => {
                self.agent.deferred.push_back(message);
                self.cancel_seen = true;
            }
            DemoAction::Answer { id, result } => return Ok(Some(WakeReason::Answer { id, result })),
        }
        Ok(None)
    }
}
