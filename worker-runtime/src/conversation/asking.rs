//! Client requests of the agent that the worker's rules cover. First their paths are resolved. Then
//! the daemon is asked, as if the agent had requested a permission. Judges nothing: rules are the
//! daemon's business, and so is who decides without a rule.

// Only an allowed request is carried out, and only at the resolved path.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use subagent_protocol::record::ApprovalClosedReason;
use subagent_protocol::start::ClientRules;

use super::calls::OpenClientRequest;
use super::effects::{ClientOperationError, ResolvedRequest};
use super::{Conversation, ConversationAction, Cx};
use crate::acp::client_operation::{ClientOperation, ClientOperationStep, OperationSubject, TerminalCommand};
use crate::acp::requests;
use crate::journal::batch::to_raw;
use crate::shorten;

/// Maximum length of a text shown for the decision, in bytes.
pub(crate) const MAX_SHOWN_BYTES: usize = 64 * 1024;
/// Maximum length of a session id, in bytes.
const MAX_ID_BYTES: usize = 1024;
const MAX_TITLE_BYTES: usize = 1000;
const ALLOW: &str = "allow-once";
const REJECT: &str = "reject-once";

/// The state of a client request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// Its record may not be written yet.
    Begun,
    /// Its path is being resolved.
    Finding,
    /// A permission for this path was requested.
    Asking(String),
    /// Allowed at this path.
    Allowed(String),
}

impl OpenClientRequest {
    /// Returns the next step, once.
    pub(super) fn next_step(&mut self, rules: Option<&ClientRules>) -> Option<ClientOperationStep> {
        match &self.stage {
            RequestStage::Begun => {
                match self.request.as_ref().zip(rules).and_then(|(request, rules)| find(request, rules)) {
                    Some(subject) => {
                        self.stage = RequestStage::Finding;
                        Some(ClientOperationStep::Find(subject))
                    }
                    None => Some(ClientOperationStep::Do(self.request.take()?, None)),
                }
            }
            RequestStage::Allowed(path) => {
                Some(ClientOperationStep::Do(self.request.take()?, Some(path.clone())))
            }
            RequestStage::Finding | RequestStage::Asking(_) => None,
        }
    }
}

/// Returns what must be resolved to know whether a permission is needed; `None` for
/// requests that need none.
fn find(request: &ClientOperation, rules: &ClientRules) -> Option<OperationSubject> {
    match request {
        ClientOperation::Read { path, .. } => rules.read.then(|| OperationSubject::File(path.clone())),
        ClientOperation::Write { path, content } => {
            let shown = content.len() <= MAX_SHOWN_BYTES;
            Some(OperationSubject::Target(path.clone(), shown))
        }
        ClientOperation::Create(command) => {
            rules.execute.then(|| OperationSubject::Folder(command.cwd.clone()))
        }
        ClientOperation::Output { .. }
        | ClientOperation::WaitForExit { .. }
        | ClientOperation::Kill { .. }
        | ClientOperation::Release { .. } => None,
    }
}

/// Whether the resolved request needs a permission.
fn needs_permission(request: &ClientOperation, found: &str, rules: &ClientRules) -> bool {
    let ClientOperation::Write { path, .. } = request else { return true };
    let written = without_dots(path);
    let guarded = |folder: &PathBuf| Path::new(found).starts_with(folder) || written.starts_with(folder);
    rules.edit || rules.guarded.iter().any(guarded)
}

/// Removes `.` and `..` from an absolute path, without looking at the file system.
fn without_dots(path: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

impl Conversation {
    /// The path of a request was resolved.
    pub(super) fn call_found(
        &mut self,
        call: u64,
        found: Result<ResolvedRequest, ClientOperationError>,
        cx: &mut Cx<'_>,
    ) {
        let Some(open) = self.calls.find(call).filter(|open| open.stage == RequestStage::Finding) else {
            return;
        };
        let found = match found {
            Ok(found) => found,
            Err(refused) => return self.refuse_call(call, refused, cx),
        };
        let (Some(request), Some(rules)) = (&open.request, &self.config.client_rules) else { return };
        if !needs_permission(request, &found.path, rules) {
            open.stage = RequestStage::Allowed(found.path);
            return cx.push(ConversationAction::Call(call));
        }
        if self.approvals.is_full() {
            return self.refuse_call(call, ClientOperationError::internal("too many open questions"), cx);
        }
        let Some(id) = (self.config.make_request_id)() else {
            let message = "the client could not generate an id for the request";
            return self.refuse_call(call, ClientOperationError::internal(message), cx);
        };
        let mut params = match question(request, &found, id.as_str()) {
            Ok(tool_call) => json!({"toolCall": tool_call, "options": [
                {"optionId": ALLOW, "name": "Allow", "kind": "allow_once"},
                {"optionId": REJECT, "name": "Reject", "kind": "reject_once"},
            ]}),
            Err(refused) => return self.refuse_call(call, refused, cx),
        };
        let session = open.session.clone().filter(|session| session.len() <= MAX_ID_BYTES);
        open.stage = RequestStage::Asking(found.path);
        if let Some(session) = session.or_else(|| self.own_session().map(str::to_owned)) {
            params["sessionId"] = session.into();
        }
        self.ask_for_call(call, id, to_raw(&params), cx);
    }

    /// A client or a rule has decided.
    pub(super) fn call_decided(
        &mut self,
        call: u64,
        option: Option<&str>,
        rule: Option<&str>,
        cx: &mut Cx<'_>,
    ) {
        let Some(open) = self.calls.find(call) else { return };
        let RequestStage::Asking(found) = &open.stage else { return };
        if option == Some(ALLOW) {
            open.stage = RequestStage::Allowed(found.clone());
            return cx.push(ConversationAction::Call(call));
        }
        let why = match (option, rule) {
            (None, _) => return self.call_not_decided(call, ApprovalClosedReason::TurnCanceled, cx),
            (Some(_), Some(rule)) => format!("the rule `{rule}` of the worker denies it"),
            (Some(_), None) => "the owner of the worker has rejected it".to_owned(),
        };
        let message = format!("{} was not done: {why}", open.method);
        self.refuse_call(call, ClientOperationError::invalid(message), cx);
    }

    /// No decision is possible any more.
    pub(super) fn call_not_decided(&mut self, call: u64, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
        let why = match reason {
            ApprovalClosedReason::TurnCanceled => "it was canceled",
            ApprovalClosedReason::TurnEnded => "the turn ended",
            ApprovalClosedReason::Withdrawn
            | ApprovalClosedReason::AgentGone
            | ApprovalClosedReason::Stopped => "the worker is being stopped",
        };
        let message = format!("what the rules of the worker ask for was not allowed before {why}");
        self.refuse_call(call, ClientOperationError { code: requests::REQUEST_CANCELLED, message }, cx);
    }
}

/// The tool call shown for the decision. It carries the question's id, which the agent cannot know.
fn question(
    request: &ClientOperation,
    found: &ResolvedRequest,
    id: &str,
) -> Result<Value, ClientOperationError> {
    let mut call = json!({"toolCallId": id, "status": "pending"});
    let mut file = |verb: &str, kind: &str, path: &str, input: Value| {
        call["title"] = title(&format!("{verb} {path}")).into();
        call["kind"] = kind.into();
        call["rawInput"] = input;
        call["locations"] = json!([{"path": found.path}]);
    };
    match request {
        ClientOperation::Read { path, line, limit } => {
            file("Read", "read", path, json!({"path": path, "line": line, "limit": limit}));
        }
        ClientOperation::Write { path, content } => {
            file("Write", "edit", path, json!({"path": path, "bytes": content.len()}));
            if content.len() <= MAX_SHOWN_BYTES {
                call["content"] =
                    json!([{"type": "diff", "path": path, "oldText": found.text, "newText": content}]);
            }
        }
        ClientOperation::Create(command) => {
            let (shown, words) = command_line(command)?;
            call["title"] = title(&shown).into();
            call["kind"] = "execute".into();
            call["rawInput"] = json!({"command": words, "cwd": found.path});
        }
        ClientOperation::Output { .. }
        | ClientOperation::WaitForExit { .. }
        | ClientOperation::Kill { .. }
        | ClientOperation::Release { .. } => {}
    }
    Ok(call)
}

fn title(text: &str) -> String {
    shorten::text(text, MAX_TITLE_BYTES)
}

/// Formats a command for people and for rules. Includes the names of its variables; their
/// values may be secrets.
fn command_line(command: &TerminalCommand) -> Result<(String, Value), ClientOperationError> {
    let TerminalCommand { program, args, env, .. } = command;
    let names = env.iter().map(|(name, _)| name);
    if [program].into_iter().chain(args).chain(names).map(String::len).sum::<usize>() > MAX_SHOWN_BYTES {
        let kibibytes = MAX_SHOWN_BYTES / 1024;
        let message = format!("the rules of the worker cannot judge a command of more than {kibibytes} KiB");
        return Err(ClientOperationError::invalid(message));
    }
    let line = match (program.as_str(), args.as_slice()) {
        ("/bin/sh", [option, line]) if option == "-c" => Some(line),
        _ => None,
    };
    if let (Some(line), true) = (line, env.is_empty()) {
        return Ok((line.clone(), line.as_str().into()));
    }
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if let Some((name, _)) = env.iter().find(|(name, _)| !is_name(name)) {
        let message = format!("the rules of the worker cannot judge a variable of this name: {name:?}");
        return Err(ClientOperationError::invalid(message));
    }
    let variables = env.iter().map(|(name, _)| format!("{name}=..."));
    let start = (!env.is_empty()).then(|| "env".to_owned());
    let words: Vec<String> =
        start.into_iter().chain(variables).chain([program.clone()]).chain(args.iter().cloned()).collect();
    Ok((words.join(" "), words.into()))
}
