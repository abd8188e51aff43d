//! The errors of this conversation: code, what was wrong, what to do next.
//!
//! Categories come from error numbers and exit statuses, never from words in a log.

use serde_json::{Value, json};
use subagent_protocol::ask::LoginKind;
use subagent_protocol::error::{Code, Error};
use subagent_protocol::lenient;
use subagent_protocol::mcp::NamedServer;
use subagent_protocol::options::SessionOption;
use subagent_protocol::rate_limit::{self, Reset};
use subagent_protocol::start::Login;

use super::effects::Exit;
use super::rate_limits;
use crate::acp::options::Unavailable;
use crate::acp::requests::SessionContext;
use crate::acp::results::Capabilities;
use crate::acp::{requests, results};
use crate::shorten;

/// Maximum JSON length of a text from the agent or the user within an error, in bytes. The record
/// of an error must fit into the space reserved for a full disk.
const MAX_BYTES: usize = 8 * 1024;

/// Maximum number of stderr lines in the error of a turn.
const MAX_LINES: usize = 50;

/// Exit status of a shell or `env` that did not find the program.
const NOT_FOUND: i32 = 127;
/// Exit status of a shell or `env` that may not execute the program.
const NOT_EXECUTABLE: i32 = 126;

pub(crate) fn spawn_failed(command: &[String], errno: i32, message: &str) -> Error {
    use nix::libc::{E2BIG, EACCES, ELOOP, ENOENT, ENOEXEC, ENOTDIR, EPERM};
    let (code, category, action) = match errno {
        ENOENT | ENOTDIR | ENOEXEC | ELOOP | E2BIG => (Code::BackendLauncher, "launcher", CHECK_LAUNCHER),
        EACCES | EPERM => (Code::BackendPermissionDenied, "permission", CHECK_PERMISSION),
        _ => (Code::BackendUnavailable, "unknown", TRY_AGAIN),
    };
    started(Error::new(code, format!("the agent could not be started: {message}")), command, category, action)
        .with("error", message)
        .with("errno", errno)
}

/// Adds what every failed start reports, unless the error is more precise. The agent has done
/// nothing yet, so a retry is safe.
pub(crate) fn at_start(mut error: Error, command: &[String], tail: &str) -> Error {
    for (key, value) in [
        ("command", shorten::value(&json!(command), MAX_BYTES)),
        ("error", shorten::text(&error.message, MAX_BYTES).into()),
        ("reasonCategory", "unknown".into()),
        ("recommendedAction", READ_STDERR.into()),
        ("logTail", if tail.trim().is_empty() { WROTE_NOTHING } else { tail }.into()),
    ] {
        if !error.details.contains_key(key) {
            error = error.with(key, value);
        }
    }
    error.retryable |=
        matches!(error.code, Code::BackendUnavailable | Code::BackendTimeout | Code::StorageFull);
    error
}

pub(crate) fn exited_at_start(command: &[String], exit: Exit) -> Error {
    let (code, category, action) = match exit.code {
        Some(NOT_FOUND) => (Code::BackendLauncher, "launcher", CHECK_LAUNCHER),
        Some(NOT_EXECUTABLE) => (Code::BackendPermissionDenied, "permission", CHECK_PERMISSION),
        _ => (Code::BackendUnavailable, "unknown", READ_STDERR),
    };
    let error = Error::new(code, format!("the agent ended before it had a session ({})", describe(exit)));
    with_exit(started(error, command, category, action), exit).with("error", describe(exit))
}

pub(super) fn startup_timeout(command: &[String], method: &str, phase: &str, seconds: f64) -> Error {
    let message = format!("the agent did not answer {method} within {seconds} s of its start");
    let action = "Run the launcher's command by hand: it must speak ACP on standard input and output. If it only \
                  needs longer, raise the launcher's startup timeout.";
    started(Error::new(Code::BackendTimeout, message), command, "timeout", action)
        .with("method", method)
        .with("timeoutSeconds", seconds)
        .with("phase", phase)
}

/// A request with its own deadline got no response; `phase` is the step it belongs to.
pub(crate) fn no_answer(command: &[String], method: &str, phase: &str, seconds: f64) -> Error {
    let message = format!("the agent did not answer {method} within {seconds} s (phase {phase})");
    let action = "Read the agent's last lines in logTail, and run the launcher's command by hand: it must speak ACP on \
                  standard input and output. If it only needs longer, raise the launcher's timeouts.";
    started(Error::new(Code::BackendTimeout, message), command, "timeout", action)
        .with("method", method)
        .with("timeoutSeconds", seconds)
        .with("phase", phase)
}

pub(crate) fn foreign_version(version: &Value) -> Error {
    let version = &shorten::value(version, 256);
    Error::new(
        Code::BackendProtocolError,
        format!(
            "the agent answered initialize with ACP protocol version {version}; this client speaks version 1"
        ),
    )
    .with("method", "initialize")
    .with("response", json!({"protocolVersion": version}))
    .recommend("Use a version of the agent that speaks ACP version 1.")
}

pub(crate) fn no_session_id(response: &str) -> Error {
    Error::new(Code::BackendProtocolError, "the agent answered session/new without a usable sessionId")
        .with("method", "session/new")
        .with("response", excerpt(response))
        .recommend("Report this to the agent's authors: ACP requires sessionId, a text; here it may have 4,096 bytes.")
}

pub(crate) fn rpc(method: &str, error: &Value) -> Error {
    Error::new(Code::BackendRpcError, format!("the agent rejected {method}: {}", results::error_text(error)))
        .with("method", method)
        .with("error", shorten::value(error, MAX_BYTES))
}

/// The agent rejected a prompt. A rate limit of the provider is marked: the same
/// message may succeed later. `reported` is the time of reset that an update reported before.
pub(super) fn prompt_rejected(error: &Value, reported: Option<Reset>) -> Error {
    let rejected = rpc("session/prompt", error);
    if !rate_limits::is_limit(error) {
        return rejected;
    }
    rate_limit::mark(rejected.retryable(), rate_limits::reset(error).or(reported)).recommend(
        "The model's provider wants fewer requests: wait, look at what was done (`subagent worker inspect`), then send again.",
    )
}

/// Returns the error of a session that was not opened for a rate limit.
pub(super) fn session_limited(method: &str, error: &Value) -> Error {
    rate_limit::mark(rpc(method, error).retryable(), rate_limits::reset(error))
        .recommend("The model's provider wants fewer requests: wait, then try again.")
}

/// The agent did not resume the session that a client named.
pub(super) fn session_refused(session: &str, method: &str, error: &Value) -> Error {
    let refused = rpc(method, error);
    let unsupported = results::error_code(error) == Some(i64::from(requests::METHOD_NOT_FOUND));
    let code = if unsupported { Code::AgentMethodUnsupported } else { Code::SessionNotFound };
    let session = shorten::text(session, 200);
    let message = format!("the agent did not resume the session {session}: {}", results::error_text(error));
    Error { code, message, ..refused }
        .with("sessionId", session)
        .recommend("`subagent session list` shows the sessions of an agent that can list them.")
}

/// The agent opened another session instead of the one that a client named.
pub(super) fn other_session(session: &str, method: &str, other: &str) -> Error {
    let (session, other) = (shorten::text(session, 200), shorten::text(other, 200));
    let message = format!("the agent did not resume the session {session}; it opened {other} instead");
    Error::new(Code::SessionNotFound, message)
        .with("sessionId", session)
        .with("method", method)
        .with("openedSessionId", other)
        .recommend("`subagent session list` shows the sessions of an agent that can list them.")
}

/// This agent cannot resume the session that a client named.
pub(super) fn cannot_resume(session: &str) -> Error {
    let message = "the agent cannot resume a session: it offers neither session/resume nor session/load";
    Error::new(Code::AgentMethodUnsupported, message)
        .with("sessionId", shorten::text(session, 200))
        .with("method", "session/resume")
        .recommend("Start the worker without --resume, or use an agent that keeps sessions.")
}

/// The agent requires a login; `again` is what to do after it.
pub(super) fn auth_required(
    method: &str,
    error: &Value,
    methods: &[(String, Option<LoginKind>)],
    login: &Login,
    again: &str,
) -> Error {
    let ids: Vec<&str> = methods.iter().map(|(id, _)| id.as_str()).collect();
    let command = match &login.launcher {
        Some(launcher) => {
            format!("subagent launcher login {}", shell_words::quote(&shorten::text(launcher, 200)))
        }
        None => "subagent launcher login".to_owned(),
    };
    let mut reported = rpc(method, error)
        .with("authMethods", shorten::value(&json!(ids), MAX_BYTES))
        .with("reasonCategory", "auth");
    let mut action = format!(
        "Log in with `{command}` or the agent's own command, or put its API key into the environment or the \
         launcher's env, then {again}."
    );
    if let Some(way) = &login.method {
        let way = shorten::text(way, 200);
        if !methods.iter().any(|(id, kind)| {
            id == login.method.as_deref().unwrap_or_default() && *kind == Some(LoginKind::Agent)
        }) {
            action.push_str(&format!(
                " The agent cannot log in with the launcher's authMethod {way} by itself."
            ));
        }
        reported = reported.with("authMethod", way);
    }
    if login.launcher.is_some() {
        reported = reported.with("recommendedCommand", command);
    }
    reported.recommend(action)
}

/// The agent rejected a prompt until it was logged in, which it is now.
pub(super) fn logged_in(error: Error) -> Error {
    let action = "The agent is logged in now: look at what was done (`subagent worker inspect`), then send the message again.";
    let mut error = error.with("loggedIn", true).retryable().recommend(action);
    error.details.remove("recommendedCommand");
    error
}

/// Checks whether the agent supports the session's folders and servers.
pub(super) fn check_context(context: &SessionContext, capabilities: Capabilities) -> Result<(), Error> {
    let lacks = |capability: &str, message: String, action: &str| {
        let error = Error::new(Code::CapabilityNotSupported, message);
        Err(error.with("capability", capability).recommend(action))
    };
    for server in &context.mcp_servers.0 {
        let NamedServer { name, kind } = lenient::read(server);
        let kind = kind.0.unwrap_or("stdio");
        if (kind == "http" && !capabilities.mcp_http) || (kind == "sse" && !capabilities.mcp_sse) {
            let message =
                format!("the agent cannot use MCP servers over {kind} ({})", shorten::text(name, 200));
            let action = "Take the server out of mcpServers for this launcher, or use one that the agent starts (stdio).";
            return lacks(&format!("mcpCapabilities.{kind}"), message, action);
        }
    }
    if !context.additional_directories.is_empty() && !capabilities.directories {
        let message = "the agent cannot work in additional directories".to_owned();
        let action = "Start the worker without --add-dir, in a folder that holds all that it needs.";
        return lacks("sessionCapabilities.additionalDirectories", message, action);
    }
    Ok(())
}

/// Adds what every error about an option reports.
pub(super) fn of_option(error: Error, choice: &SessionOption) -> Error {
    error
        .with("option", shorten::text(choice.name(), 1024))
        .with("value", shorten::value(&json!(choice.value()), 1024))
}

pub(super) fn option_unavailable(choice: &SessionOption, unavailable: &Unavailable) -> Error {
    let (what, name) = match choice {
        SessionOption::Mode { .. } => ("mode", String::new()),
        SessionOption::Model { .. } => ("model", String::new()),
        SessionOption::ConfigOption { config_id, .. } => {
            ("config option", format!(" {}", shorten::text(config_id, 200)))
        }
    };
    let value = shorten::text(&choice.value().to_string(), 200);
    let (message, available, count) = match unavailable {
        Unavailable::Option(known) => {
            let message = match choice {
                SessionOption::ConfigOption { .. } => format!("the agent has no {what}{name}"),
                _ => format!("the agent has no {what} to choose"),
            };
            (message, json!(known), known.len())
        }
        Unavailable::Value(values) => {
            let message = match choice {
                SessionOption::ConfigOption { .. } => {
                    format!("the agent's {what}{name} has no value {value}")
                }
                _ => format!("the agent has no {what} {value}"),
            };
            let ids: Vec<&str> = values.iter().map(|value| value.id.as_str()).collect();
            (message, json!(ids), ids.len())
        }
    };
    let error = Error::new(Code::OptionNotAvailable, message)
        .with("available", shorten::value(&available, MAX_BYTES))
        .with("availableCount", count)
        .recommend(
            "Choose one of details.available with `subagent worker set`, or leave the choice to the agent.",
        );
    of_option(error, choice)
}

pub(super) fn option_rejected(choice: &SessionOption, method: &str, error: &Value) -> Error {
    let not_there = results::error_code(error) == Some(i64::from(requests::METHOD_NOT_FOUND));
    let mut reported = rpc(method, error);
    if not_there {
        reported.code = Code::OptionNotAvailable;
    }
    let advice = "Choose another value, or leave the choice to the agent; details.error is what it says.";
    of_option(reported.recommend(advice), choice)
}

pub(super) fn option_timeout(choice: &SessionOption, method: &str, seconds: u64, tail: &str) -> Error {
    let message = format!("the agent did not answer {method} within {seconds} s");
    let error = Error::new(Code::BackendTimeout, message)
        .with("method", method)
        .with("phase", method)
        .with("timeoutSeconds", seconds)
        .with("stderrTail", last_lines(tail))
        .recommend("Read what the agent wrote (`subagent worker logs`), then try again.");
    of_option(error.retryable(), choice)
}

pub(super) fn exited_in_turn(exit: Exit, tail: &str) -> Error {
    let message = format!("the agent ended during the turn ({})", describe(exit));
    let error = Error::new(Code::BackendUnavailable, message).with("method", "session/prompt");
    dispatched(with_exit(error, exit)).with("stderrTail", last_lines(tail))
}

/// A process that an agent without a worker started does not end.
pub(crate) fn not_ended(seconds: u64) -> Error {
    let message = format!(
        "not all processes of the agent have ended within {seconds} s; they are being killed repeatedly"
    );
    Error::new(Code::StopIncomplete, message).retryable().recommend(
        "Look for processes that cannot be killed (`ps` shows them in state D): a file system may hang.",
    )
}

pub(crate) fn pipe_closed_at_start() -> Error {
    pipe_closed("initialize").recommend(READ_STDERR)
}

pub(super) fn pipe_closed_in_turn(tail: &str) -> Error {
    dispatched(pipe_closed("session/prompt")).with("stderrTail", last_lines(tail))
}

fn pipe_closed(method: &str) -> Error {
    Error::new(Code::BackendUnavailable, "the agent closed its standard input or output but did not end")
        .with("method", method)
}

pub(super) fn turn_timeout(seconds: f64) -> Error {
    let message = format!("the turn took longer than its limit of {seconds} s");
    dispatched(Error::new(Code::BackendTimeout, message))
        .with("method", "session/prompt")
        .with("timeoutSeconds", seconds)
        .recommend(
            "Look at what was done (`subagent worker inspect`), then send what is left as a smaller task, or raise \
             the launcher's turn timeout.",
        )
}

pub(super) fn cancel_ignored(seconds: f64) -> Error {
    let message = format!("the agent did not end the turn within {seconds} s of session/cancel");
    dispatched(Error::new(Code::BackendTimeout, message))
        .with("method", "session/cancel")
        .with("timeoutSeconds", seconds)
}

pub(super) fn stopped(reason: &str) -> Error {
    let reason = shorten::text(reason, 1000);
    dispatched(Error::new(
        Code::BackendUnavailable,
        format!("the worker was ended during the turn: {reason}"),
    ))
    .with("method", "session/prompt")
    .with("reason", reason)
}

pub(super) fn storage_full(dropped: u64) -> Error {
    let message =
        "the disk that holds the state directory is full: the agent's output could not be written down";
    Error::new(Code::StorageFull, message)
        .with("droppedUpdates", dropped)
        .recommend("Free some space, then try again.")
}

/// The error of a turn that ended before its prompt was sent.
pub(super) fn never_sent() -> Error {
    let message = "the turn ended before the agent had applied the mode and model of the definition; the message was not sent";
    Error::new(Code::BackendUnavailable, message)
}

pub(super) fn dispatched(error: Error) -> Error {
    error.with("dispatched", "maybe").recommend(LOOK_FIRST)
}

const LOOK_FIRST: &str = "Look at what was done (`subagent worker inspect`) before sending again: the next message restarts the agent.";
const CHECK_LAUNCHER: &str = "Check the launcher's command and the PATH of the shell that starts the worker.";
const CHECK_PERMISSION: &str =
    "Check that the launcher's command is executable and that its folder may be entered.";
/// Replaces the last lines of an agent that wrote none.
const WROTE_NOTHING: &str =
    "(the agent wrote nothing to standard error, and only messages to standard output)";
const READ_STDERR: &str = "Read the agent's last lines in logTail, and run the launcher's command by hand.";
const TRY_AGAIN: &str = "Try again; the system refused for a temporary reason.";

fn started(error: Error, command: &[String], category: &str, action: &str) -> Error {
    error
        .with("command", shorten::value(&json!(command), MAX_BYTES))
        .with("reasonCategory", category)
        .recommend(action)
}

fn with_exit(mut error: Error, exit: Exit) -> Error {
    if let Some(code) = exit.code {
        error = error.with("exitCode", code);
    }
    if let Some(signal) = exit.signal {
        error = error.with("signal", signal);
    }
    error
}

/// Returns the end of the agent's stderr, as lines.
fn last_lines(tail: &str) -> Value {
    let lines: Vec<&str> = tail.lines().collect();
    json!(lines[lines.len().saturating_sub(MAX_LINES)..])
}

fn describe(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "exit status unknown".to_owned(),
    }
}

/// Quotes a response in an error, with a length limit.
fn excerpt(text: &str) -> Value {
    text.chars().take(1000).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_short_with_any_quoted_text() {
        let long = "\u{1}".repeat(1_000_000);
        let list = vec![long.clone(); 3];
        let methods: Vec<_> = list.iter().map(|id| (id.clone(), None)).collect();
        let answered = json!({"code": -32000, "message": long, "data": {"details": list, "message": long}});
        for error in [
            rpc("session/prompt", &answered),
            auth_required(
                "session/new",
                &answered,
                &methods,
                &Login { launcher: Some(long.clone()), method: Some(long.clone()) },
                "x",
            ),
            stopped(&long),
            foreign_version(&answered),
            no_session_id(&long),
            at_start(exited_at_start(&list, Exit::default()), &list, &"\u{1}".repeat(4000)),
            exited_in_turn(Exit::default(), &"\u{1}\n".repeat(2000)),
        ] {
            let bytes = serde_json::to_string(&error).unwrap().len();
            assert!(bytes <= 48 * 1024, "{}: {bytes}", error.code);
        }
        assert_eq!(rpc("m", &answered).details["error"]["code"], -32000);
    }

    #[test]
    fn a_rate_limit_is_distinguished() {
        for (error, retryable) in [
            (json!({"code": -32603, "message": "m", "data": {"errorKind": "rate_limit"}}), true),
            (json!({"code": -32603, "message": "m", "data": {"errorKind": "overloaded"}}), true),
            (json!({"code": 429, "message": "m"}), true),
            (json!({"code": -32603, "message": "m", "data": {"statusCode": 503}}), true),
            (json!({"code": 400, "message": "rate_limit 429"}), false),
            (json!({"code": -32603, "message": "m", "data": {"errorKind": "unknown"}}), false),
            (json!({"code": -32603, "message": "m", "data": "rate_limit"}), false),
            (json!("429"), false),
            (json!({"code": -31_001, "message": "m", "data": {"provider": "p"}}), true),
        ] {
            let reported = prompt_rejected(&error, None);
            assert_eq!((reported.code, reported.retryable), (Code::BackendRpcError, retryable), "{error}");
            assert_eq!(reported.details.contains_key("reasonCategory"), retryable, "{error}");
        }
    }

    #[test]
    fn a_start_may_be_tried_again_and_a_turn_that_was_sent_may_not() {
        let start = |error| at_start(error, &["agent".to_owned()], "last words");
        for (error, retryable) in [
            (exited_at_start(&[], Exit { code: Some(1), signal: None }), true),
            (exited_at_start(&[], Exit { code: Some(NOT_FOUND), signal: None }), false),
            (spawn_failed(&[], nix::libc::EAGAIN, "no process"), true),
            (spawn_failed(&[], nix::libc::ENOENT, "no file"), false),
            (startup_timeout(&[], "initialize", "spawn", 1.0), true),
            (pipe_closed_at_start(), true),
            (auth_required("session/new", &json!({}), &[], &Login::default(), "x"), false),
            (foreign_version(&json!(2)), false),
        ] {
            let error = start(error);
            assert_eq!(error.retryable, retryable, "{error:?}");
            for key in ["command", "error", "reasonCategory", "recommendedAction", "logTail"] {
                assert!(error.details.contains_key(key), "{key}: {error:?}");
            }
        }
        for error in [
            exited_in_turn(Exit::default(), ""),
            pipe_closed_in_turn(""),
            turn_timeout(1.0),
            cancel_ignored(1.0),
            stopped("x"),
            dispatched(storage_full(0)),
        ] {
            assert_eq!(
                (error.retryable, &error.details["dispatched"]),
                (false, &json!("maybe")),
                "{error:?}"
            );
            assert!(error.details["recommendedAction"].as_str().unwrap().starts_with("Look"), "{error:?}");
        }
    }
}
