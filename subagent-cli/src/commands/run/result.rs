//! What a run came to: its outcome, its exit code, the facts, and what people read of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use subagent_config::result_schema::ResultSchema;
use subagent_protocol::api::{WorkerView, WorktreeEnd};
use subagent_protocol::clean::one_line;
use subagent_protocol::ids::{ControllerId, TurnId, WorkerId};
use subagent_protocol::{budget, lenient};
use subagent_runtime::work_tree::Changes;

use super::drive::{Driven, RunEnd};
use super::figures::Figures;
use super::format::RunOutputFormat;
use super::transcript::{DeniedRequest, TurnEnding};
use super::went::Went;
use crate::exit_code::{TurnExitStatus, TurnOutcome};
use crate::failure::ErrorText;
use crate::output::rule::path_of;
use crate::output::terminal::all_at_terminal;
use crate::output::{CliOutcome, explain};

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    pub(crate) went: Went,
    pub(crate) code: u8,
    pub(crate) data: FinishedData,
    pub(crate) figures: Figures,
    /// Why it is no success, line by line.
    pub(crate) reasons: Vec<String>,
    /// What its worker is called.
    pub(crate) name: Option<String>,
}

/// The data of `run.finished`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FinishedData {
    outcome: &'static str,
    exit_code: u8,
    pub(crate) worker_id: Option<WorkerId>,
    controller_id: Option<ControllerId>,
    pub(crate) launcher: Option<String>,
    session_id: Option<String>,
    turn_id: Option<TurnId>,
    pub(crate) message: Option<String>,
    stop_reason: Option<String>,
    pub(crate) usage: Value,
    pub(crate) error: Value,
    denied: Vec<DeniedRequest>,
    denied_count: usize,
    turned_away: usize,
    duration_seconds: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    message_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree: Option<WorktreeEnd>,
    /// Null without a result; absent without a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_errors: Option<Vec<Value>>,
}

/// Judges a run that has changed these files.
pub(crate) fn judge(
    driven: Driven,
    changes: Changes,
    schema: Option<&ResultSchema>,
    timeout: Option<u64>,
    took: Duration,
) -> EndedRun {
    let Driven { ending, worker, turn_id, worktree, transcript, .. } = driven;
    let end = transcript.end();
    // A turn that did not come to its end has no final message that a schema could be about.
    let checked = match (&ending, end, schema) {
        (RunEnd::Turn, Some((TurnExitStatus::Completed, _)), Some(schema)) => {
            Some(schema.check(transcript.message().unwrap_or_default()))
        }
        _ => None,
    };
    let stop_reason = end.and_then(|(_, end)| end.stop_reason.as_deref());
    let of = |end| TurnOutcome::of(end, stop_reason, transcript.denied_count, transcript.turned_away);
    let went = match (&ending, end.map(|(end, _)| end)) {
        (RunEnd::Signal(_), _) => Went::Interrupted,
        (RunEnd::Timeout, _) => Went::Timeout,
        (RunEnd::Unread, _) | (RunEnd::Turn, None) => Went::Turn(TurnOutcome::Canceled),
        (RunEnd::Turn, Some(end)) => match (of(end), &checked) {
            (TurnOutcome::Completed, Some(checked)) if !checked.errors.is_empty() => Went::SchemaNotMet,
            (outcome, _) => Went::Turn(outcome),
        },
    };
    let code = went.exit_code(&ending);
    let TurnEnding { stop_reason, usage, error } = end.map(|(_, end)| end.clone()).unwrap_or_default();
    let (worker_id, controller_id, launcher, session_id, name) = match worker.map(|worker| *worker) {
        Some(WorkerView { worker_id, controller_id, launcher, session_id, name, .. }) => {
            let name = Some(name).filter(|name| !name.is_empty());
            (Some(worker_id), Some(controller_id), Some(launcher), Some(session_id), name)
        }
        None => Default::default(),
    };
    let (result, schema_errors) = match checked {
        Some(checked) => (Some(checked.result), Some(checked.errors)),
        None => (schema.map(|_| Value::Null), schema.map(|_| Vec::new())),
    };
    let data = FinishedData {
        outcome: went.word(),
        exit_code: code,
        worker_id,
        controller_id,
        launcher,
        session_id,
        turn_id,
        message: transcript.message().map(str::to_owned),
        stop_reason,
        usage: usage.unwrap_or_default(),
        error: error.unwrap_or_default(),
        denied: transcript.denied.clone(),
        denied_count: transcript.denied_count,
        turned_away: transcript.turned_away,
        duration_seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
        message_truncated: transcript.is_truncated(),
        worktree,
        result,
        schema_errors,
    };
    let figures = Figures {
        took,
        tools: transcript.tools(),
        changes,
        tokens: budget::tokens(Some(&data.usage), None),
        cost: transcript.cost().cloned(),
    };
    let reasons = reasons(&data, went, timeout);
    EndedRun { went, code, data, figures, reasons, name }
}

/// The result of a run, for a person or for programs. Says on stderr why a run is not what it was to be.
pub(crate) fn outcome(judged: EndedRun, form: RunOutputFormat) -> CliOutcome {
    let EndedRun { data, code, reasons, .. } = judged;
    if form == RunOutputFormat::Text && !reasons.is_empty() {
        let lines: Vec<String> = reasons.iter().map(|reason| format!("run: {reason}")).collect();
        explain(&lines);
    }
    if form == RunOutputFormat::Text
        && let Some(line) = data.worktree.as_ref().and_then(kept)
    {
        explain(&[line]);
    }
    // At a terminal it was shown when the agent said it.
    let message = if form == RunOutputFormat::Text && all_at_terminal() {
        String::new()
    } else {
        data.message.clone().unwrap_or_default()
    };
    CliOutcome::Judged { kind: "run.finished", data: json!(data), text: message, code }
}

/// Where the work is that a run has left in its worktree.
fn kept(worktree: &WorktreeEnd) -> Option<String> {
    let WorktreeEnd::Kept(kept) = worktree else { return None };
    let (name, path) = (one_line(&kept.name), one_line(&kept.path.to_string_lossy()));
    let branch = one_line(&kept.branch);
    Some(format!(
        "run: the worktree {path} (branch {branch}) has its work; take it with: subagent land {name}"
    ))
}

/// Why a run is not what it was to be.
fn reasons(data: &FinishedData, went: Went, timeout: Option<u64>) -> Vec<String> {
    match went {
        Went::Turn(TurnOutcome::Completed) => Vec::new(),
        Went::Turn(TurnOutcome::Failed) => {
            let ErrorText { code, message } = lenient::read(&data.error);
            vec![format!("the turn failed: {code}: {message}")]
        }
        Went::Turn(TurnOutcome::Canceled) => vec!["the turn was canceled by another command".to_owned()],
        Went::Turn(TurnOutcome::PermissionDenied) => data.denied.iter().map(denial).collect(),
        Went::Turn(outcome) => vec![outcome.sentence().to_owned()],
        Went::Timeout => vec![format!("not done within {} s", timeout.unwrap_or_default())],
        Went::SchemaNotMet => {
            let errors = data.schema_errors.iter().flatten().map(lenient::read);
            let line = |SchemaFault { path, message }: SchemaFault<'_>| match path {
                "" => format!("schema not met: {message}"),
                at => format!("schema not met at {at}: {message}"),
            };
            errors.map(line).collect()
        }
        Went::Interrupted if data.worker_id.is_none() => {
            vec!["interrupted before its agent was ready; nothing of it is left".to_owned()]
        }
        Went::Interrupted => vec!["interrupted; the worker is stopped".to_owned()],
    }
}

/// A place where a message does not fit the schema.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SchemaFault<'a> {
    path: &'a str,
    message: &'a str,
}

/// A denied request in a line.
fn denial(denied: &DeniedRequest) -> String {
    /// The rule that denied a request.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct DenyingRule<'a> {
        rule: Option<&'a str>,
    }
    let rule: DenyingRule<'_> = denied.policy.as_ref().map(lenient::read).unwrap_or_default();
    let by = rule.rule.map(|rule| format!(" (by the rule `{rule}`)")).unwrap_or_default();
    let path = denied.path.as_deref().and_then(path_of);
    let of = path.map(|path| format!(" of the task {path}")).unwrap_or_default();
    format!("permission denied{of}: {}{by}", denied.message.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::transcript::RunTranscript;
    use super::*;

    fn of(ending: RunEnd, events: &[Value], schema: Option<&ResultSchema>) -> (Value, u8) {
        let mut transcript = RunTranscript::default();
        events.iter().for_each(|event| drop(transcript.see(event)));
        let driven =
            Driven { ending, worker: None, turn_id: None, worktree: None, transcript, printed_by: None };
        let judged = judge(driven, Vec::new(), schema, Some(1), Duration::from_millis(1500));
        assert_eq!(judged.reasons.is_empty(), judged.code == 0, "{judged:?}");
        (json!(judged.data), judged.code)
    }

    #[test]
    fn each_way_to_end_has_a_code_of_its_own() {
        let completed = json!({"type": "turn.completed", "data": {"stopReason": "end_turn"}});
        let failed = json!({"type": "turn.failed", "data": {"error": {"code": "X"}}});
        let canceled = json!({"type": "turn.canceled", "data": {}});
        let denied = json!({"type": "approval.decided", "data": {"requestId": "a", "optionId": "reject"}});
        let stopped = |reason: &str| json!({"type": "turn.completed", "data": {"stopReason": reason}});
        let form = json!({"type": "elicitation.answered", "data": {"requestId": "e", "action": "cancel"}});
        let violated =
            json!({"type": "policy.violated", "data": {"subject": "rm x", "rule": "execute(rm *)"}});
        let signal = nix::sys::signal::Signal::SIGINT;
        let table = [
            (RunEnd::Turn, vec![completed.clone()], "completed", 0),
            (RunEnd::Turn, vec![failed.clone()], "failed", 10),
            (RunEnd::Turn, vec![denied.clone(), failed], "failed", 10),
            (RunEnd::Turn, vec![canceled.clone()], "canceled", 11),
            (RunEnd::Unread, vec![canceled.clone()], "canceled", 11),
            (RunEnd::Turn, vec![denied.clone(), completed.clone()], "permission_denied", 12),
            (RunEnd::Turn, vec![denied, canceled.clone()], "permission_denied", 12),
            (RunEnd::Turn, vec![violated, canceled.clone()], "permission_denied", 12),
            (RunEnd::Turn, vec![stopped("refusal")], "refusal", 16),
            (RunEnd::Turn, vec![stopped("max_tokens")], "max_tokens", 17),
            (RunEnd::Turn, vec![stopped("max_turn_requests")], "max_turn_requests", 18),
            (RunEnd::Turn, vec![form, completed.clone()], "turned_away", 19),
            (RunEnd::Timeout, vec![canceled.clone()], "timeout", 13),
            (RunEnd::Timeout, vec![completed.clone()], "timeout", 13),
            (RunEnd::Signal(signal), vec![canceled], "interrupted", 130),
        ];
        for (ending, events, word, code) in table {
            let (data, found) = of(ending, &events, None);
            assert_eq!((&data["outcome"], &data["exitCode"], found), (&json!(word), &json!(code), code));
            assert!(data.get("result").is_none());
        }
    }
}
