//! The agent's side of all ACP methods outside of a turn (see `steps.rs`).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::thread;

use serde_json::{Value, json};
use subagent_protocol::json::extend;

use super::choices::AllChoices;
use super::inbox::AgentInbox;
use super::options::{DemoAgentOptions, Dialect};
use super::sessions::Sessions;
use super::wire::{AgentStdout, Incoming, RequestId, RpcError};

/// The authentication method that `--needs-auth` offers.
const AUTH_METHOD: &str = "demo-login";
/// Retry delay in milliseconds that the error of `--limited-while` reports.
const LIMITED_MS: u64 = 300;
pub(super) struct ReceivedPrompt {
    pub(super) id: RequestId,
    pub(super) session: String,
    pub(super) text: String,
}

/// The next action of the main loop after a message.
pub(super) enum DemoAction {
    Nothing,
    Run(ReceivedPrompt),
    /// Cancel the turn of this session.
    Cancel(String),
    /// Cancel the running turn, then handle the message again.
    CancelThen(Incoming),
    /// The client responded to one of our requests.
    Answer {
        id: u64,
        result: Result<Value, RpcError>,
    },
}

/// Whether the process continues after a turn.
pub(super) enum AfterTurn {
    Continue,
    Exit(ExitCode),
}

/// Whether a turn is running, and in which session.
#[derive(Clone, Copy)]
pub(super) enum RunningTurn<'a> {
    Idle,
    In(&'a str),
}

pub(super) struct DemoAgent {
    pub(super) options: DemoAgentOptions,
    pub(super) out: AgentStdout,
    pub(super) inbox: AgentInbox,
    pub(super) sessions: Sessions,
    pub(super) choices: AllChoices,
    /// Arguments before the agent's own, for starting this program as a child.
    pub(super) self_args: Vec<OsString>,
    /// Processes of `!spawn`. The agent never stops them, because scripts test processes left behind.
    pub(super) spawned: Vec<Child>,
    pub(super) deferred: VecDeque<Incoming>,
    next_request: u64,
    next_tool: u64,
    initialized: bool,
    authenticated: bool,
}

impl DemoAgent {
    pub(super) fn new(options: DemoAgentOptions, self_args: Vec<OsString>) -> io::Result<Self> {
        Ok(Self {
            out: AgentStdout::stdout(options.dialect)?,
            inbox: AgentInbox::start()?,
            sessions: Sessions::new(options.state.clone(), options.dialect),
            choices: AllChoices::default(),
            self_args,
            spawned: Vec::new(),
            deferred: VecDeque::new(),
            next_request: 0,
            next_tool: 0,
            initialized: false,
            authenticated: !options.offers_login() || login_file(&options).is_some_and(|file| file.exists()),
            options,
        })
    }

    /// Handles one message: responds, or returns what the loop must do.
    pub(super) fn handle(&mut self, message: Incoming, busy: RunningTurn<'_>) -> io::Result<DemoAction> {
        match message {
            Incoming::Invalid(error) => self.out.error(None, &error).map(|()| DemoAction::Nothing),
            Incoming::Response { id, result } => {
                Ok(id.map_or(DemoAction::Nothing, |id| DemoAction::Answer { id, result }))
            }
            Incoming::Notification { method, params } => self.notified(&method, &params),
            Incoming::Request { id, method, params } => {
                let session = text(&params, "sessionId").unwrap_or_default();
                if method == "session/close" && matches!(busy, RunningTurn::In(running) if running == session)
                {
                    return Ok(DemoAction::CancelThen(Incoming::Request { id, method, params }));
                }
                if method == "session/prompt" {
                    return match self.accept_prompt(&params, busy) {
                        Ok((session, text)) => Ok(DemoAction::Run(ReceivedPrompt { id, session, text })),
                        Err(error) => self.out.error(Some(&id), &error).map(|()| DemoAction::Nothing),
                    };
                }
                match self.request(&method, &params)? {
                    Some(Ok(result)) => self.out.result(&id, &result)?,
                    Some(Err(error)) => self.out.error(Some(&id), &error)?,
                    None => {}
                }
                Ok(DemoAction::Nothing)
            }
        }
    }

    /// Returns the id of a new request. It counts from 0, like most agents, and so collides with the
    /// client's ids.
    pub(super) fn request_id(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request - 1
    }

    pub(super) fn tool_id(&mut self) -> String {
        self.next_tool += 1;
        format!("tool-{}-{}", std::process::id(), self.next_tool)
    }

    fn notified(&mut self, method: &str, params: &Value) -> io::Result<DemoAction> {
        if method != "session/cancel" {
            return Ok(DemoAction::Nothing);
        }
        if self.options.dialect == Dialect::Bare {
            self.out.raw(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n")?;
            self.out.flush()?;
        }
        Ok(text(params, "sessionId").map_or(DemoAction::Nothing, DemoAction::Cancel))
    }

    /// Returns the response to a request; `None` leaves it without a response.
    fn request(&mut self, method: &str, params: &Value) -> io::Result<Option<Result<Value, RpcError>>> {
        if method != "initialize" && !self.initialized {
            return Ok(Some(Err(RpcError::invalid_request("initialize must be the first request"))));
        }
        if matches!(method, "session/new" | "session/load" | "session/resume") {
            self.report_login()?;
            if self.options.limited_while.as_ref().is_some_and(|file| file.exists()) {
                return Ok(Some(Err(RpcError::limited(Some(LIMITED_MS)))));
            }
        }
        Ok(Some(match method {
            "initialize" if self.options.hang_initialize => return Ok(None),
            "initialize" => {
                // The scripted delay of a start, not a wait for an event.
                thread::sleep(self.options.slow_start);
                self.initialize(params)
            }
            "authenticate" => {
                let result = self.authenticate(params);
                self.report_login()?;
                result
            }
            "session/new" if self.options.hang_session_new => return Ok(None),
            "session/new" => self.new_session(params),
            "session/load" => self.load_session(params)?,
            "session/resume" => self.known_session(params).map(|session| self.options_of(&session)),
            "session/set_config_option" => self.set_option(params),
            "session/close" => self.close_session(params),
            "session/list" => Ok(self.list_sessions(params)),
            _ => Err(RpcError::new(-32601, format!("method not found: {method}"))),
        }))
    }

    fn initialize(&mut self, params: &Value) -> Result<Value, RpcError> {
        if !params.get("protocolVersion").is_some_and(Value::is_u64) {
            return Err(RpcError::invalid_params("initialize needs protocolVersion, a number"));
        }
        self.initialized = true;
        if self.options.dialect == Dialect::Bare {
            return Ok(json!({"protocolVersion": 1, "serverInfo": {"name": "demo-agent"}}));
        }
        let auth = if self.options.offers_login() {
            json!([{"id": AUTH_METHOD, "name": "Demo login", "description": "Signs in without asking"}])
        } else {
            json!([])
        };
        let mut sessions = json!({"close": {}, "list": {}, "resume": {}});
        if self.options.system_prompt {
            extend(&mut sessions, [("systemPrompt", json!({}))]);
        }
        Ok(json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": false, "sse": false},
                "sessionCapabilities": sessions,
            },
            "authMethods": auth,
            "agentInfo": {
                "name": "demo-agent", "title": "Scripted demo agent", "version": env!("CARGO_PKG_VERSION"),
            },
        }))
    }

    fn authenticate(&mut self, params: &Value) -> Result<Value, RpcError> {
        if text(params, "methodId").as_deref() != Some(AUTH_METHOD) || !self.options.offers_login() {
            return Err(RpcError::invalid_params("unknown methodId"));
        }
        self.authenticated = true;
        if let Some(file) = login_file(&self.options) {
            let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
            folder.and_then(|()| fs::write(&file, "")).map_err(|error| {
                RpcError::internal(format!("the login cannot be stored below --state: {error}"))
            })?;
        }
        Ok(json!({}))
    }

    fn new_session(&mut self, params: &Value) -> Result<Value, RpcError> {
        self.checked_login()?;
        let cwd = place(params)?;
        let id = self.sessions.create(&cwd).map_err(|error| {
            RpcError::internal(format!("the session cannot be stored below --state: {error}"))
        })?;
        self.take_system_prompt(&id, params)?;
        let mut result = self.options_of(&id);
        extend(&mut result, [("sessionId", id.into())]);
        Ok(result)
    }

    /// Reports the login status, as some agents do.
    fn report_login(&mut self) -> io::Result<()> {
        if !self.options.late_auth {
            return Ok(());
        }
        let status = match self.authenticated {
            true => json!({"kind": "account", "label": "Demo account"}),
            false => json!({"kind": "none", "label": "Not logged in"}),
        };
        self.out.notification("_auth/status_update", &json!({ "authStatus": status }))
    }

    fn checked_login(&self) -> Result<(), RpcError> {
        if self.authenticated || self.options.late_auth { Ok(()) } else { Err(login_required()) }
    }

    /// Returns the options of a session. The bare dialect predates them.
    fn options_of(&mut self, session: &str) -> Value {
        match self.options.dialect {
            Dialect::Bare => json!({}),
            Dialect::Standard => json!({"configOptions": self.choices.config_options(session)}),
        }
    }

    fn set_option(&mut self, params: &Value) -> Result<Value, RpcError> {
        let session = required(params, "sessionId")?;
        if !self.sessions.is_open(&session) {
            return Err(not_found(&session));
        }
        self.choices.set(&session, &required(params, "configId")?, &params["value"])
    }

    fn load_session(&mut self, params: &Value) -> io::Result<Result<Value, RpcError>> {
        let session = match place(params).and_then(|_| self.known_session(params)) {
            Ok(session) => session,
            Err(error) => return Ok(Err(error)),
        };
        let bare = self.options.dialect == Dialect::Bare;
        let history = self.sessions.reopen(&session, "").unwrap_or_default();
        for update in history {
            self.out.update(&session, update.clone())?;
        }
        let null = bare || self.options.null_load;
        Ok(Ok(if null { Value::Null } else { self.options_of(&session) }))
    }

    /// Returns the session in `params`; reopens a stored one.
    fn known_session(&mut self, params: &Value) -> Result<String, RpcError> {
        self.checked_login()?;
        let id = required(params, "sessionId")?;
        let cwd = required(params, "cwd")?;
        match self.sessions.reopen(&id, &cwd) {
            Some(_) => self.take_system_prompt(&id, params).map(|()| id),
            None => Err(not_found(&id)),
        }
    }

    /// Takes the client's addition to the system prompt, if the agent offers this.
    fn take_system_prompt(&mut self, session: &str, params: &Value) -> Result<(), RpcError> {
        let given = &params["systemPrompt"];
        if given.is_null() {
            return Ok(());
        }
        let text = given["content"][0]["text"].as_str().filter(|_| given["mode"] == "append");
        match text.filter(|_| self.options.system_prompt) {
            Some(text) => self.choices.instruct(session, text),
            None => return Err(RpcError::invalid_params("systemPrompt is not taken like this")),
        }
        Ok(())
    }

    fn close_session(&mut self, params: &Value) -> Result<Value, RpcError> {
        let id = required(params, "sessionId")?;
        if self.sessions.close(&id) { Ok(json!({})) } else { Err(not_found(&id)) }
    }

    fn list_sessions(&self, params: &Value) -> Value {
        let wanted = text(params, "cwd");
        let sessions: Vec<Value> = self
            .sessions
            .list()
            .into_iter()
            .filter(|(_, cwd)| wanted.as_ref().is_none_or(|wanted| wanted == cwd))
            .map(|(id, cwd)| json!({"sessionId": id, "cwd": cwd}))
            .collect();
        json!({"sessions": sessions})
    }

    fn accept_prompt(&self, params: &Value, busy: RunningTurn<'_>) -> Result<(String, String), RpcError> {
        if !self.authenticated {
            return Err(login_required());
        }
        let session = required(params, "sessionId")?;
        if !self.sessions.is_open(&session) {
            return Err(not_found(&session));
        }
        if let RunningTurn::In(running) = busy {
            return Err(RpcError::invalid_request(format!("a turn of session {running} is running")));
        }
        let Some(blocks) = params.get("prompt").and_then(Value::as_array) else {
            return Err(RpcError::invalid_params("session/prompt needs prompt, a list of content blocks"));
        };
        let lines: Result<Vec<String>, RpcError> = blocks.iter().map(script_of).collect();
        Ok((session, lines?.join("\n")))
    }
}

fn login_required() -> RpcError {
    RpcError::new(-32000, "Authentication required")
}

/// Path of the file that records a login.
fn login_file(options: &DemoAgentOptions) -> Option<PathBuf> {
    options.state.as_ref().map(|folder| folder.join("logged-in"))
}

/// Returns the script text of a content block: its text, or a plain line with type and URI.
fn script_of(block: &Value) -> Result<String, RpcError> {
    let kind = required(block, "type")?;
    match kind.as_str() {
        "text" => required(block, "text"),
        "resource_link" => {
            required(block, "name")?;
            Ok(format!("resource_link {}", required(block, "uri")?))
        }
        "resource" => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            Ok(format!("resource {}", required(resource, "uri")?))
        }
        _ => Err(RpcError::invalid_params(format!("a content block of type {kind} was not offered"))),
    }
}

/// Returns the absolute `cwd` of a request that must also contain MCP servers, by the specification.
fn place(params: &Value) -> Result<String, RpcError> {
    let cwd = required(params, "cwd")?;
    if !cwd.starts_with('/') {
        return Err(RpcError::invalid_params(format!("cwd must be an absolute path, not {cwd}")));
    }
    if !params.get("mcpServers").is_some_and(Value::is_array) {
        return Err(RpcError::invalid_params("mcpServers must be a list"));
    }
    Ok(cwd)
}

fn text(params: &Value, key: &str) -> Option<String> {
    params.get(key)?.as_str().map(str::to_owned)
}

fn required(params: &Value, key: &str) -> Result<String, RpcError> {
    text(params, key).ok_or_else(|| RpcError::invalid_params(format!("{key} is missing or not a string")))
}

fn not_found(session: &str) -> RpcError {
    RpcError::new(-32002, format!("session not found: {session}"))
}
