//! An agent built on the official SDK, so that a foreign codec checks ours.

// It answers a prompt with the prompt's words, one chunk each. The word `options` reports the
// chosen session options. A prompt with the word `ask` first requests a permission and prints
// `permission: <optionId>`. One with `elicit` requests a form and prints `elicitation: <answer>`.
// One with `wait` waits until it is canceled.
//
// Lines that begin with `read PATH`, `write PATH TEXT`, `run COMMAND` and `leave COMMAND` (a
// terminal without a waiting request) become client requests, if the client offers them. Their
// results are printed. `--state DIR` stores the sessions, so that `session/load` replays them in a
// new process. It uses only the SDK's types.

#[path = "sdk_agent/options.rs"]
mod options;

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ClientCapabilities, ContentBlock, ContentChunk,
    CreateElicitationRequest, CreateTerminalRequest, ElicitationAction, ElicitationFormMode,
    ElicitationSchema, ElicitationSessionScope, Implementation, InitializeRequest, InitializeResponse,
    LoadSessionRequest, LoadSessionResponse, McpCapabilities, McpServer, MultiSelectPropertySchema,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptCapabilities,
    PromptRequest, PromptResponse, ReadTextFileRequest, ReleaseTerminalRequest, RequestPermissionOutcome,
    RequestPermissionRequest, SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionId,
    SessionNotification, SessionUpdate, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse, StopReason, TerminalOutputRequest, TextContent,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind, WaitForTerminalExitRequest,
    WriteTextFileRequest,
};
use agent_client_protocol::{Agent, Channel, Client, Error, Result, TransportFrame};
use options::{OptionForm, SdkAgentOptions};
use tokio::sync::Notify;

#[derive(Default)]
struct SdkSession {
    history: Vec<SessionUpdate>,
    /// Notified by `session/cancel` while a turn runs.
    cancel: Option<Arc<Notify>>,
}

#[derive(Clone, Default)]
struct Echo {
    state: Option<PathBuf>,
    sessions: Arc<Mutex<HashMap<SessionId, SdkSession>>>,
    offered: Arc<Mutex<ClientCapabilities>>,
    options: Arc<SdkAgentOptions>,
    /// Parameters of the last session request, with the length of each value instead of the value.
    place: Arc<Mutex<String>>,
}

impl Echo {
    /// Runs `change` on an open session.
    fn with<T>(&self, id: &SessionId, change: impl FnOnce(&mut SdkSession) -> T) -> Result<T> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get_mut(id).map(change).ok_or_else(|| Error::invalid_params().data("unknown session"))
    }

    fn open(&self, id: &SessionId, history: Vec<SessionUpdate>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(id.clone(), SdkSession { history, cancel: None });
    }

    fn file(&self, id: &SessionId) -> Option<PathBuf> {
        let name = id.to_string();
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        self.state.as_ref().filter(|_| plain).map(|folder| folder.join(format!("{name}.json")))
    }

    /// Creates a session with an id that no file in the state folder has.
    fn create(&self) -> Result<SessionId> {
        let mut number = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).len();
        loop {
            number += 1;
            let id = SessionId::new(format!("sdk-{number}"));
            if !self.file(&id).is_some_and(|path| path.exists()) {
                self.open(&id, Vec::new());
                self.store(&id)?;
                return Ok(id);
            }
        }
    }

    fn opened(&self, servers: &[McpServer], directories: &[PathBuf]) {
        let servers = servers.iter().map(|server| match server {
            McpServer::Stdio(server) => {
                let env = server.env.iter().map(|env| format!("{}:{}", env.name, env.value.len()));
                let env = env.collect::<Vec<_>>().join(",");
                format!("{} {} {:?} {env}", server.name, server.command.display(), server.args)
            }
            McpServer::Http(server) => {
                let headers =
                    server.headers.iter().map(|header| format!("{}:{}", header.name, header.value.len()));
                format!("{} http {} {}", server.name, server.url, headers.collect::<Vec<_>>().join(","))
            }
            _ => "another".to_owned(),
        });
        let place = format!("{}; {directories:?} ", servers.collect::<Vec<_>>().join("; "));
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    fn store(&self, id: &SessionId) -> Result<()> {
        let Some(path) = self.file(id) else { return Ok(()) };
        let bytes = self.with(id, |session| serde_json::to_vec(&session.history))?;
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(path, bytes?)).map_err(Error::into_internal_error)
    }

    /// Returns the history of an open or stored session.
    fn load(&self, id: &SessionId) -> Result<Vec<SessionUpdate>> {
        if let Ok(history) = self.with(id, |session| session.history.clone()) {
            return Ok(history);
        }
        let stored = self.file(id).and_then(|path| fs::read(path).ok());
        let bytes = stored.ok_or_else(|| Error::invalid_params().data("unknown session"))?;
        let history: Vec<SessionUpdate> =
            serde_json::from_slice(&bytes).map_err(Error::into_internal_error)?;
        self.open(id, history.clone());
        Ok(history)
    }

    async fn turn(&self, prompt: PromptRequest, client: &ConnectionTo<Client>) -> Result<PromptResponse> {
        let id = prompt.session_id.clone();
        let cancel = Arc::new(Notify::new());
        self.with(&id, |session| session.cancel = Some(cancel.clone()))?;
        let reason = tokio::select! {
            result = self.work(&prompt, client) => result.map(|()| StopReason::EndTurn),
            () = cancel.notified() => Ok(StopReason::Cancelled),
        };
        self.with(&id, |session| session.cancel = None)?;
        self.store(&id)?;
        reason.map(PromptResponse::new)
    }

    async fn work(&self, prompt: &PromptRequest, client: &ConnectionTo<Client>) -> Result<()> {
        let id = &prompt.session_id;
        let texts = prompt.prompt.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        let asked = SessionUpdate::UserMessageChunk(chunk(&text));
        self.with(id, |session| session.history.push(asked))?;
        let mut asked = false;
        for line in text.lines() {
            if let Some(outcome) = self.of_the_client(id, client, line).await {
                let outcome = outcome
                    .unwrap_or_else(|error| format!("error {}: {}", i32::from(error.code), error.message));
                self.say(id, client, &format!("{outcome}\n"))?;
                asked = true;
            }
        }
        if asked {
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.contains(&"blocks") {
            let blocks = serde_json::to_string(&prompt.prompt).map_err(Error::into_internal_error)?;
            self.say(id, client, &blocks)?;
        }
        if words.contains(&"place") {
            let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.say(id, client, &place)?;
        }
        if words.contains(&"options") {
            self.say(id, client, &format!("{} ", self.options.words(id)))?;
        }
        if words.contains(&"ask") {
            let verdict = ask(id, client).await?;
            self.say(id, client, &format!("permission: {verdict} "))?;
        }
        if words.contains(&"elicit") {
            let said = elicit(id, client).await?;
            self.say(id, client, &format!("elicitation: {said} "))?;
        }
        for word in &words {
            self.say(id, client, &format!("{word} "))?;
        }
        if words.contains(&"wait") {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// Makes the client request that a line describes, if any.
    async fn of_the_client(
        &self,
        id: &SessionId,
        client: &ConnectionTo<Client>,
        line: &str,
    ) -> Option<Result<String>> {
        let (verb, rest) = line.split_once(' ')?;
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let refused = || Some(Err(Error::method_not_found().data("the client does not offer it")));
        match verb {
            "read" if offered.fs.read_text_file => Some(read(id, client, rest).await),
            "write" if offered.fs.write_text_file => Some(write(id, client, rest).await),
            "run" if offered.terminal => Some(run(id, client, rest).await),
            "leave" if offered.terminal => Some(leave(id, client, rest).await),
            "read" | "write" | "run" | "leave" => refused(),
            _ => None,
        }
    }

    fn say(&self, id: &SessionId, client: &ConnectionTo<Client>, text: &str) -> Result<()> {
        let update = SessionUpdate::AgentMessageChunk(chunk(text));
        self.with(id, |session| session.history.push(update.clone()))?;
        client.send_notification(SessionNotification::new(id.clone(), update))
    }
}

fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

async fn read(id: &SessionId, client: &ConnectionTo<Client>, path: &str) -> Result<String> {
    let request = ReadTextFileRequest::new(id.clone(), path);
    Ok(client.send_request(request).block_task().await?.content)
}

async fn write(id: &SessionId, client: &ConnectionTo<Client>, rest: &str) -> Result<String> {
    let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
    client.send_request(WriteTextFileRequest::new(id.clone(), path, text)).block_task().await?;
    Ok("written".to_owned())
}

async fn run(id: &SessionId, client: &ConnectionTo<Client>, command: &str) -> Result<String> {
    let request = CreateTerminalRequest::new(id.clone(), command);
    let terminal = client.send_request(request).block_task().await?.terminal_id;
    let waiting = WaitForTerminalExitRequest::new(id.clone(), terminal.clone());
    let exit = client.send_request(waiting).block_task().await?.exit_status;
    let printed =
        client.send_request(TerminalOutputRequest::new(id.clone(), terminal.clone())).block_task().await?;
    client.send_request(ReleaseTerminalRequest::new(id.clone(), terminal)).block_task().await?;
    Ok(format!("exit {:?} {}", exit.exit_code, printed.output))
}

async fn leave(id: &SessionId, client: &ConnectionTo<Client>, command: &str) -> Result<String> {
    let request = CreateTerminalRequest::new(id.clone(), command);
    Ok(client.send_request(request).block_task().await?.terminal_id.to_string())
}

async fn ask(id: &SessionId, client: &ConnectionTo<Client>) -> Result<String> {
    let fields = ToolCallUpdateFields::new()
        .kind(ToolKind::Execute)
        .status(ToolCallStatus::Pending)
        .title("run a command".to_owned());
    let options = vec![
        PermissionOption::new("allow", "Allow", PermissionOptionKind::AllowOnce),
        PermissionOption::new("always", "Always allow", PermissionOptionKind::AllowAlways),
        PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce),
    ];
    let request = RequestPermissionRequest::new(id.clone(), ToolCallUpdate::new("sdk-tool", fields), options);
    let answer = client.send_request(request).block_task().await?;
    Ok(match answer.outcome {
        RequestPermissionOutcome::Selected(selected) => selected.option_id.to_string(),
        _ => "cancelled".to_owned(),
    })
}

async fn elicit(id: &SessionId, client: &ConnectionTo<Client>) -> Result<String> {
    let kinds = MultiSelectPropertySchema::new(vec!["x".to_owned(), "y".to_owned()]);
    let schema = ElicitationSchema::new()
        .string("name", true)
        .integer("size", 1, 5, true)
        .number("share", 0.0, 1.0, false)
        .boolean("sure", false)
        .property("kinds", kinds, false);
    let mode = ElicitationFormMode::new(ElicitationSessionScope::new(id.clone()), schema);
    let request = CreateElicitationRequest::new(mode, "How?");
    let answer = client.send_request(request).block_task().await?;
    Ok(match answer.action {
        ElicitationAction::Accept(accepted) => {
            serde_json::to_string(&accepted.content).map_err(Error::into_internal_error)?
        }
        ElicitationAction::Decline => "declined".to_owned(),
        ElicitationAction::Cancel => "cancelled".to_owned(),
        _ => "unknown".to_owned(),
    })
}

/// Connects the SDK to stdin and stdout: a thread reads lines, a task writes frames.
fn stdio() -> io::Result<(Channel, tokio::task::JoinHandle<()>)> {
    let (ours, theirs) = Channel::duplex();
    let (mut rx, tx) = ours.into_parts();
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() && tx.unbounded_send(TransportFrame::parse_json(text.trim())).is_err()
            {
                break;
            }
            line.clear();
        }
    })?;
    let writer = tokio::spawn(async move {
        while let Ok(frame) = rx.recv().await {
            let Ok(text) = frame.to_json() else { continue };
            let mut out = io::stdout().lock();
            if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
                break;
            }
        }
    });
    Ok((theirs, writer))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut echo = Echo::default();
    let mut capabilities = AgentCapabilities::new().load_session(true);
    let mut args = std::env::args_os().skip(1);
    while let Some(arg) = args.next() {
        match (arg.to_str(), args.next()) {
            (Some("--state"), Some(folder)) => echo.state = Some(folder.into()),
            (Some("--takes"), Some(what)) => {
                let takes = |word: &str| what.to_string_lossy().contains(word);
                let prompt = PromptCapabilities::new()
                    .image(takes("image"))
                    .audio(takes("audio"))
                    .embedded_context(takes("embedded"));
                let mcp = McpCapabilities::new().http(takes("http"));
                let directories = takes("directories").then(SessionAdditionalDirectoriesCapabilities::new);
                let session = SessionCapabilities::new().additional_directories(directories);
                capabilities = capabilities
                    .prompt_capabilities(prompt)
                    .mcp_capabilities(mcp)
                    .session_capabilities(session);
            }
            (Some("--offer"), Some(what)) => {
                let offer = match what.to_str() {
                    Some("config") => OptionForm::Config,
                    Some("modes") => OptionForm::Modes,
                    _ => OptionForm::Nothing,
                };
                echo.options = Arc::new(SdkAgentOptions::new(offer));
            }
            _ => return Err(Error::invalid_params().data("usage: sdk-agent [--state DIR] [--offer WHAT]")),
        }
    }
    let (transport, writer) = stdio().map_err(Error::into_internal_error)?;
    let (init, mode, option) = (echo.clone(), echo.clone(), echo.clone());
    let (new, load, prompt, cancel) = (echo.clone(), echo.clone(), echo.clone(), echo);
    let served = Agent
        .v1()
        .name("sdk-agent")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                *init.offered.lock().unwrap_or_else(PoisonError::into_inner) = request.client_capabilities;
                responder.respond(
                    InitializeResponse::new(ProtocolVersion::V1)
                        .agent_capabilities(capabilities.clone())
                        .agent_info(Implementation::new("sdk-agent", env!("CARGO_PKG_VERSION"))),
                )
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, _| {
                new.opened(&request.mcp_servers, &request.additional_directories);
                responder.respond_with_result(new.create().map(|id| {
                    let options = &new.options;
                    NewSessionResponse::new(id.clone())
                        .modes(options.modes(&id))
                        .config_options(options.config(&id))
                }))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, client: ConnectionTo<Client>| {
                load.opened(&request.mcp_servers, &request.additional_directories);
                let replayed = load.load(&request.session_id).and_then(|history| {
                    history.into_iter().try_for_each(|update| {
                        client.send_notification(SessionNotification::new(request.session_id.clone(), update))
                    })
                });
                let (id, options) = (&request.session_id, &load.options);
                responder.respond_with_result(replayed.map(|()| {
                    LoadSessionResponse::new().modes(options.modes(id)).config_options(options.config(id))
                }))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionModeRequest, responder, _| {
                let set = mode.options.set_mode(&request);
                responder.respond_with_result(set.map(|()| SetSessionModeResponse::new()))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest, responder, _| {
                let set = option.options.set(&request);
                responder.respond_with_result(set.map(SetSessionConfigOptionResponse::new))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, client: ConnectionTo<Client>| {
                let (echo, to) = (prompt.clone(), client.clone());
                // Outside the dispatch loop, which must continue to see the cancel.
                client.spawn(async move { responder.respond_with_result(echo.turn(request, &to).await) })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancelled: CancelNotification, _| {
                // A session that does not exist has nothing to cancel.
                let bell = cancel.with(&cancelled.session_id, |session| session.cancel.clone());
                if let Ok(Some(bell)) = bell {
                    bell.notify_one();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(transport)
        .await;
    // The last responses are still on their way to stdout.
    let written = writer.await.map_err(Error::into_internal_error);
    served.and(written)
}
