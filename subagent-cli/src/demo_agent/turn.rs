//! One turn: executes the steps of a script in order and handles messages of the client. A cancel
//! takes effect before each step and inside of every wait and flood. A [`EarlyEnd`] ends a turn early;
//! only [`run`] responds to the prompt.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::{AfterTurn, DemoAction, DemoAgent, ReceivedPrompt, RunningTurn};
use super::inbox::InboxEvent;
use super::script::{self, Directive, ScriptStep};
use super::updates;
use super::wire::RpcError;
use super::{elicitations, floods, permissions};

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
enum CancelReaction {
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
enum Late {
    Chunk,
    /// A line without a conversion.
    Line(String),
}

pub(super) struct DemoTurn<'a> {
    pub(super) agent: &'a mut DemoAgent,
    pub(super) session: String,
    /// Tool calls without a reported end.
    pub(super) open_tools: Vec<String>,
    hearing: CancelReaction,
    cancel_seen: bool,
    history: Vec<Value>,
    said: String,
    late: Option<Late>,
    exit_after: bool,
    /// The token usage in the response to the prompt.
    usage: Option<Value>,
}

/// Runs the prompt to its end and responds.
pub(super) fn run(agent: &mut DemoAgent, prompt: ReceivedPrompt) -> io::Result<AfterTurn> {
    let ReceivedPrompt { id, session, text } = prompt;
    if let Err(error) = agent.sessions.append(&session, vec![updates::user_message(&text)]) {
        let error = RpcError::internal(format!("the prompt cannot be stored: {error}"));
        return agent.out.error(Some(&id), &error).map(|()| AfterTurn::Continue);
    }
    let mut turn = DemoTurn {
        agent,
        session,
        open_tools: Vec::new(),
        hearing: CancelReaction::Listening,
        cancel_seen: false,
        history: Vec::new(),
        said: String::new(),
        late: None,
        exit_after: false,
        usage: None,
    };
    let end = turn.steps(script::parse(&text));
    turn.finish_message();
    let DemoTurn { agent, session, mut history, open_tools, late, exit_after, usage, .. } = turn;
    for tool in open_tools {
        let update = updates::tool_call_end(&tool, "failed", "the turn ended");
        history.push(update.clone());
        // A disconnected client reads no messages.
        if !matches!(end, Err(EarlyEnd::Exit(_) | EarlyEnd::Output(_))) {
            agent.out.update(&session, update)?;
        }
    }
    // The session may be closed by now; if the history cannot be stored, the prompt fails.
    let end = match agent.sessions.append(&session, history) {
        Ok(()) => end,
        Err(error) => Err(EarlyEnd::Error(RpcError::internal(format!("the turn cannot be stored: {error}")))),
    };
    let reason = match end {
        Ok(()) => Ok("end_turn".to_owned()),
        Err(EarlyEnd::Cancelled) => Ok("cancelled".to_owned()),
        Err(EarlyEnd::Reason(reason)) => Ok(reason),
        Err(EarlyEnd::Error(error)) => Err(error),
        Err(EarlyEnd::Exit(code)) => return agent.out.flush().map(|()| AfterTurn::Exit(code)),
        Err(EarlyEnd::Output(error)) => return Err(error),
    };
    match reason {
        Ok(reason) => {
            let mut result = json!({"stopReason": reason});
            if let Some(usage) = usage {
                result["usage"] = usage;
            }
            agent.out.result(&id, &result)?;
        }
        Err(error) => agent.out.error(Some(&id), &error)?,
    }
    agent.out.flush()?;
    match late {
        Some(Late::Chunk) => agent.out.update(&session, updates::message("late update"))?,
        Some(Late::Line(line)) => agent.out.raw((line.replace("SESSION", &session) + "\n").as_bytes())?,
        None => {}
    }
    agent.out.flush()?;
    Ok(if exit_after { AfterTurn::Exit(ExitCode::SUCCESS) } else { AfterTurn::Continue })
}

impl DemoTurn<'_> {
    fn steps(&mut self, steps: Vec<ScriptStep>) -> Result<(), EarlyEnd> {
        for ScriptStep { line, directive } in steps {
            // No poll before a step that ignores cancels: a cancel that reacts to the previous step must
            // not take effect.
            if !matches!(directive, Ok(Directive::Hang | Directive::IgnoreCancel(_))) {
                self.poll()?;
            }
            let problem = match directive {
                Ok(directive) => self.step(directive)?,
                Err(problem) => Some(problem),
            };
            if let Some(problem) = problem {
                self.say(&format!("demo-agent: line {line}: {problem}"))?;
            }
            self.agent.out.flush()?;
        }
        self.poll()
    }

    /// Executes one step. A failed step returns its error text, and the turn continues.
    fn step(&mut self, directive: Directive) -> Result<Option<String>, EarlyEnd> {
        match directive {
            Directive::Say(text) => self.say(&text)?,
            Directive::Chunks { count, text } => floods::chunks(self, count, text.as_deref())?,
            Directive::Stream(count) => floods::stream(self, count)?,
            Directive::Think(text) => self.record(updates::thought(&text))?,
            Directive::Tool { kind, title } => self.tool(&kind, &title)?,
            Directive::Edit(edit) => return self.edit(&edit),
            Directive::Plan(entries) => self.record(updates::plan(&entries))?,
            Directive::Usage { used, size } => self.update(updates::usage(used, size))?,
            Directive::Tokens(json) => match serde_json::from_str(&json) {
                Ok(usage) => self.usage = Some(usage),
                Err(error) => return Ok(Some(format!("!tokens: {error}"))),
            },
            Directive::Ask { kind, title, requests } => permissions::ask(self, &kind, &title, requests)?,
            Directive::Elicit { params, file } => {
                return elicitations::elicit(self, &params, file.as_deref());
            }
            Directive::Raw(line) => elicitations::raw(self, &line)?,
            Directive::Sleep(time) => self.sleep(time)?,
            Directive::WaitFile(path) => return self.wait_file(&path),
            Directive::Touch(path) => return Ok(super::commands::touch(&path)),
            Directive::Crash(code) => {
                self.agent.out.flush()?;
                std::process::exit(code);
            }
            Directive::KillSelf => {
                self.agent.out.flush()?;
                return Ok(super::commands::kill_self());
            }
            Directive::Hang => self.hang()?,
            Directive::IgnoreCancel(time) => {
                self.hearing = CancelReaction::Postponing;
                self.sleep(time)?;
                self.hearing = CancelReaction::Listening;
            }
            Directive::Noise => floods::noise(self)?,
            Directive::Line(bytes) => return floods::line(self, bytes),
            Directive::Flood { amount, bytes } => floods::flood(self, amount, bytes)?,
            Directive::Error { code, message } => return Err(EarlyEnd::Error(RpcError::new(code, message))),
            Directive::RateLimit(retry_after_ms) => {
                return Err(EarlyEnd::Error(RpcError::limited(retry_after_ms)));
            }
            Directive::Stop(reason) => return Err(EarlyEnd::Reason(reason)),
            Directive::Unknown => self.unknown()?,
            Directive::Late(line) => self.late = Some(line.map_or(Late::Chunk, Late::Line)),
            Directive::Spawn(shapes) => return self.spawn(&shapes),
            Directive::Shell(command) => return self.shell(&command),
            Directive::Env(name) => {
                let value = std::env::var_os(name);
                self.say(&value.map_or("unset".into(), |value| value.to_string_lossy().into_owned()))?;
            }
            Directive::Cwd => match std::env::current_dir() {
                Ok(path) => self.say(&path.to_string_lossy())?,
                Err(error) => return Ok(Some(format!("!cwd: {error}"))),
            },
            Directive::Options => {
                let words = self.agent.choices.words(&self.session);
                self.say(&words)?;
            }
            Directive::SystemPrompt => {
                let text = self.agent.choices.system_prompt(&self.session);
                self.say(&text)?;
            }
            Directive::ExitAfter => self.exit_after = true,
            Directive::Stderr(text) => return Ok(super::commands::stderr(&text)),
        }
        Ok(None)
    }

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
    fn finish_message(&mut self) {
        if !self.said.is_empty() {
            self.history.push(updates::message(&std::mem::take(&mut self.said)));
        }
    }

    fn tool(&mut self, kind: &str, title: &str) -> Result<(), EarlyEnd> {
        let id = self.agent.tool_id();
        self.record(updates::tool_call(&id, kind, title, "in_progress"))?;
        self.record(updates::tool_call_end(&id, "completed", &format!("{title}: done")))
    }

    fn hang(&mut self) -> Result<(), EarlyEnd> {
        self.hearing = CancelReaction::Deaf;
        loop {
            self.wait(LONG)?;
        }
    }

    fn sleep(&mut self, time: Duration) -> Result<(), EarlyEnd> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.wait(left)?;
        }
        Ok(())
    }

    /// Sends unknown update kinds, notifications and requests.
    fn unknown(&mut self) -> Result<(), EarlyEnd> {
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
