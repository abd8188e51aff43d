//! What a run came to: its outcome, its exit code, the facts, and what people read of them.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_config::result_schema::ResultSchema;
use subagent_protocol::budget;
use subagent_protocol::clean::one_line;
use subagent_runtime::work_tree::Changes;

use super::drive::{Driven, RunEnd};
use super::figures::Figures;
use super::format::RunOutputFormat;
use super::went::Went;
use crate::exit_code::{TurnExitStatus, TurnOutcome};
use crate::output::rule::task_path;
use crate::output::terminal::all_at_terminal;
use crate::output::{CliOutcome, explain};

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    pub(crate) went: Went,
    pub(crate) code: u8,
    /// The data of `run.finished`.
    pub(crate) data: Value,
    pub(crate) figures: Figures,
    /// Why it is no success, line by line.
    pub(crate) reasons: Vec<String>,
    /// What its worker is called.
    pub(crate) name: Option<String>,
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
    let stop_reason = end.and_then(|(_, data)| data["stopReason"].as_str());
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
    let of_end = |key: &str| end.map_or(Value::Null, |(_, data)| data[key].clone());
    let field = |key: &str| worker.as_ref().map_or(Value::Null, |worker| worker[key].clone());
    let mut data = json!({
        "outcome": went.word(),
        "exitCode": code,
        "workerId": field("workerId"),
        "controllerId": field("controllerId"),
        "launcher": field("launcher"),
        "sessionId": field("sessionId"),
        "turnId": turn_id,
        "message": transcript.message(),
        "stopReason": of_end("stopReason"),
        "usage": of_end("usage"),
        "error": of_end("error"),
        "denied": transcript.denied,
        "deniedCount": transcript.denied_count,
        "turnedAway": transcript.turned_away,
        "durationSeconds": (took.as_secs_f64() * 1000.0).round() / 1000.0,
    });
    if transcript.is_truncated() {
        data["messageTruncated"] = true.into();
    }
    if worktree.is_object() {
        data["worktree"] = worktree;
    }
    if schema.is_some() {
        data["result"] = checked.as_ref().map_or(Value::Null, |checked| checked.result.clone());
        data["schemaErrors"] =
            checked.as_ref().map_or_else(|| json!([]), |checked| Value::from(checked.errors.clone()));
    }
    let figures = Figures {
        took,
        tools: transcript.tools(),
        changes,
        tokens: budget::tokens(Some(&data["usage"]), None),
        cost: transcript.cost().cloned(),
    };
    let reasons = reasons(&data, went, timeout);
    let name = worker.as_ref().and_then(|worker| worker["name"].as_str()).map(str::to_owned);
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
        && let Some(line) = kept(&data["worktree"])
    {
        explain(&[line]);
    }
    // At a terminal it was shown when the agent said it.
    let message = if form == RunOutputFormat::Text && all_at_terminal() {
        ""
    } else {
        data["message"].as_str().unwrap_or_default()
    };
    let message = message.to_owned();
    CliOutcome::Judged { kind: "run.finished", data, text: message, code }
}

/// Where the work is that a run has left in its worktree.
fn kept(worktree: &Value) -> Option<String> {
    let word = |key: &str| worktree[key].as_str().map(one_line);
    (worktree["outcome"] == "kept").then_some(())?;
    let (name, path, branch) = (word("name")?, word("path")?, word("branch")?);
    Some(format!(
        "run: the worktree {path} (branch {branch}) has its work; take it with: subagent land {name}"
    ))
}

/// Why a run is not what it was to be.
fn reasons(data: &Value, went: Went, timeout: Option<u64>) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match went {
        Went::Turn(TurnOutcome::Completed) => Vec::new(),
        Went::Turn(TurnOutcome::Failed) => {
            let error = &data["error"];
            vec![format!("the turn failed: {}: {}", word(&error["code"]), word(&error["message"]))]
        }
        Went::Turn(TurnOutcome::Canceled) => vec!["the turn was canceled by another command".to_owned()],
        Went::Turn(TurnOutcome::PermissionDenied) => {
            let line = |denied: &Value| {
                let rule = denied["policy"]["rule"].as_str();
                let by = rule.map(|rule| format!(" (by the rule `{rule}`)")).unwrap_or_default();
                let of = task_path(denied).map(|path| format!(" of the task {path}")).unwrap_or_default();
                format!("permission denied{of}: {}{by}", word(&denied["message"]))
            };
            data["denied"].as_array().into_iter().flatten().map(line).collect()
        }
        Went::Turn(outcome) => vec![outcome.sentence().to_owned()],
        Went::Timeout => vec![format!("not done within {} s", timeout.unwrap_or_default())],
        Went::SchemaNotMet => {
            let errors = data["schemaErrors"].as_array().into_iter().flatten();
            let line = |error: &Value| match word(&error["path"]) {
                at if at.is_empty() => format!("schema not met: {}", word(&error["message"])),
                at => format!("schema not met at {at}: {}", word(&error["message"])),
            };
            errors.map(line).collect()
        }
        Went::Interrupted if data["workerId"].is_null() => {
            vec!["interrupted before its agent was ready; nothing of it is left".to_owned()]
        }
        Went::Interrupted => vec!["interrupted; the worker is stopped".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::RunTranscript;
    use super::*;

    fn of(ending: RunEnd, events: &[Value], schema: Option<&ResultSchema>) -> (Value, u8) {
        let mut transcript = RunTranscript::default();
        events.iter().for_each(|event| drop(transcript.see(event)));
        let worktree = Value::Null;
        let driven = Driven { ending, worker: None, turn_id: None, worktree, transcript, printed_by: None };
        let judged = judge(driven, Vec::new(), schema, Some(1), Duration::from_millis(1500));
        assert_eq!(judged.reasons.is_empty(), judged.code == 0, "{judged:?}");
        (judged.data, judged.code)
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
