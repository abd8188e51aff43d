//! The question that a client request of the agent becomes. Judges nothing: rules are the daemon's
//! business, and so is who decides without a rule.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use subagent_protocol::json::extend;
use subagent_protocol::start::ClientRules;

use crate::acp::client_operation::{ClientOperation, OperationSubject, TerminalCommand};
use crate::conversation::effects::{ClientOperationError, ResolvedRequest};
use crate::shorten;

/// Maximum length of a text shown for the decision, in bytes.
pub(crate) const MAX_SHOWN_BYTES: usize = 64 * 1024;
/// Maximum length of a session id, in bytes.
pub(in crate::conversation) const MAX_ID_BYTES: usize = 1024;
const MAX_TITLE_BYTES: usize = 1000;
pub(in crate::conversation) const ALLOW: &str = "allow-once";
pub(in crate::conversation) const REJECT: &str = "reject-once";

/// Returns what must be resolved to know whether a permission is needed; `None` for
/// requests that need none.
pub(in crate::conversation) fn find(
    request: &ClientOperation,
    rules: &ClientRules,
) -> Option<OperationSubject> {
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
pub(in crate::conversation) fn needs_permission(
    request: &ClientOperation,
    found: &str,
    rules: &ClientRules,
) -> bool {
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

/// The tool call shown for the decision. It carries the question's id, which the agent cannot know.
pub(in crate::conversation) fn question(
    request: &ClientOperation,
    found: &ResolvedRequest,
    id: &str,
) -> Result<Value, ClientOperationError> {
    let mut call = json!({"toolCallId": id, "status": "pending"});
    let mut file = |verb: &str, kind: &str, path: &str, input: Value| {
        let title = title(&format!("{verb} {path}")).into();
        let locations = json!([{"path": found.path}]);
        extend(
            &mut call,
            [("title", title), ("kind", kind.into()), ("rawInput", input), ("locations", locations)],
        );
    };
    match request {
        ClientOperation::Read { path, line, limit } => {
            file("Read", "read", path, json!({"path": path, "line": line, "limit": limit}));
        }
        ClientOperation::Write { path, content } => {
            file("Write", "edit", path, json!({"path": path, "bytes": content.len()}));
            if content.len() <= MAX_SHOWN_BYTES {
                let diff = json!({"type": "diff", "path": path, "oldText": found.text, "newText": content});
                extend(&mut call, [("content", json!([diff]))]);
            }
        }
        ClientOperation::Create(command) => {
            let (shown, words) = command_line(command)?;
            let input = json!({"command": words, "cwd": found.path});
            let title = title(&shown).into();
            extend(&mut call, [("title", title), ("kind", "execute".into()), ("rawInput", input)]);
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
