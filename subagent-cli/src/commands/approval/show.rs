//! `approval show`: one question.

use clap::Args;
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::clean::{clean, one_line};

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::rule::{describe_rule, task_path};
use crate::output::{CliOutcome, text};

/// Show all of a question: command, change or arguments, and how to answer
///
/// Of one that is over also who decided it, when and how.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent approval show ap_0123456789")]
pub(crate) struct ApprovalShowArgs {
    /// The id of the question
    #[arg(value_name = "REQUEST_ID")]
    pub(crate) request_id: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ApprovalShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let request = args.request_id.as_str();
    if request.is_empty() || !has_state(&workspace) {
        return Err(Failure::new(Code::ApprovalNotFound, "no worker has asked this question")
            .with("requestId", request)
            .with("stateDbPath", path_value(&workspace.db_path))
            .recommend("`subagent approval list` shows all questions; check --cwd and SUBAGENT_STATE_DIR"));
    }
    let mut client = DaemonClient::new(context, &workspace);
    let ask = ApiRequest::get(format!("/v1/approvals/{}", segment(request)));
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = lines(&data);
    Ok(CliOutcome::report("approval.shown", data, shown))
}

/// All of a question, line by line.
fn lines(data: &Value) -> String {
    let keys = [
        "requestId",
        "workerId",
        "label",
        "controllerId",
        "turnId",
        "kind",
        "toolKind",
        "status",
        "subject",
        "message",
        "cwd",
        "createdAt",
        "deadlineAt",
        "onTimeout",
    ];
    let mut lines =
        vec![text::fields(data, &keys), format!("rule: {}", one_line(&describe_rule(&data["rule"])))];
    lines.extend(task_path(data).map(|path| format!("task: {}", one_line(&path))));
    let request = &data["request"];
    for key in ["command", "url", "rawInput", "schema"] {
        if let Some(value) = request.get(key).filter(|value| !value.is_null()) {
            lines.push(format!("{key}: {}", one_line(&text::value(value))));
        }
    }
    for place in request["locations"].as_array().into_iter().flatten() {
        lines.push(format!("path: {}", one_line(place["path"].as_str().unwrap_or_default())));
    }
    for part in request["content"].as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("diff") => {
                lines.push(format!("diff: {}", one_line(part["path"].as_str().unwrap_or_default())));
                lines.extend(changed("-", &part["oldText"]));
                lines.extend(changed("+", &part["newText"]));
            }
            _ => lines.extend(changed(" ", &part["content"]["text"])),
        }
    }
    for option in data["options"].as_array().into_iter().flatten() {
        let words = ["id", "label", "kind"].map(|key| one_line(option[key].as_str().unwrap_or_default()));
        lines.push(format!("option: {}", words.join("\t")));
    }
    if data["decidedBy"].is_object() {
        let decided = &data["decidedBy"];
        let by = ["by", "decision", "at", "instanceId"].map(|key| text::value(&decided[key]));
        lines.push(format!("decided by: {}", one_line(&by.join(" "))));
        if decided["rule"].is_object() {
            lines.push(format!("decided for: {}", one_line(&describe_rule(&decided["rule"]))));
        }
    }
    lines.extend(
        data["answers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|answer| format!("answer: {}", text::value(answer))),
    );
    lines.join("\n")
}

/// Lines of a text behind a sign; nothing of them can look like another line of ours.
fn changed(sign: &str, text: &Value) -> Vec<String> {
    let text = clean(text.as_str().unwrap_or_default()).into_owned();
    text.lines().map(|line| format!("  {sign}{line}")).collect()
}
