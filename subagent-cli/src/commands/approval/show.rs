//! `approval show`: one question.

use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::{ApprovalShown, Decider};
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::tool_content::ToolContent;

use crate::client::{ApiRequest, DaemonClient, block_on, segment, view};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::rule::{describe_rule, path_of};
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
    let shown = lines(&data)?;
    Ok(CliOutcome::report("approval.shown", data, shown))
}

/// All of a question, line by line.
fn lines(data: &Value) -> Result<String> {
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
    let shown: ApprovalShown = view(data)?;
    let rule = |rule: &Option<Value>| one_line(&describe_rule(rule.as_ref().unwrap_or(&Value::Null)));
    let mut lines = vec![text::fields(data, &keys), format!("rule: {}", rule(&shown.item.rule))];
    lines.extend(path_of(&shown.item.path).map(|path| format!("task: {}", one_line(&path))));
    for key in ["command", "url", "rawInput", "schema"] {
        if let Some(value) = shown.request.get(key).filter(|value| !value.is_null()) {
            lines.push(format!("{key}: {}", one_line(&text::value(value))));
        }
    }
    let AskedCall { request: CallContents { locations, content } } = lenient::read(data);
    let places = locations.iter().filter_map(|place| place.0.as_ref());
    lines.extend(places.map(|place| format!("path: {}", one_line(place.path.0.unwrap_or_default()))));
    for part in content.iter().filter_map(|part| part.0.as_ref()) {
        match part.kind.0 {
            Some("diff") => {
                lines.push(format!("diff: {}", one_line(part.path.0.unwrap_or_default())));
                lines.extend(changed("-", part.old_text.0));
                lines.extend(changed("+", part.new_text.0));
            }
            _ => lines.extend(changed(" ", part.content.text.0)),
        }
    }
    for option in &shown.options {
        let words = [&option.id, &option.label, option.kind.as_ref().unwrap_or(&String::new())]
            .map(|word| one_line(word));
        lines.push(format!("option: {}", words.join("\t")));
    }
    if let Some(decided) = &shown.decided_by {
        let Decider { by, decision, at, instance_id, .. } = decided;
        let instance = instance_id.as_ref().map(|instance| instance.as_str()).unwrap_or_default();
        lines.push(format!("decided by: {}", one_line(&format!("{by} {decision} {at} {instance}"))));
        if decided.rule.as_ref().is_some_and(Value::is_object) {
            lines.push(format!("decided for: {}", rule(&decided.rule)));
        }
    }
    lines.extend(shown.answers.iter().map(|answer| format!("answer: {answer}")));
    Ok(lines.join("\n"))
}

/// The tool call of a request. An agent wrote it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskedCall<'a> {
    #[serde(borrow)]
    request: CallContents<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallContents<'a> {
    #[serde(borrow, deserialize_with = "lenient::or_default")]
    locations: Vec<Lenient<ToolContent<'a>>>,
    #[serde(deserialize_with = "lenient::or_default")]
    content: Vec<Lenient<ToolContent<'a>>>,
}

/// Lines of a text behind a sign; nothing of them can look like another line of ours.
fn changed(sign: &str, text: Option<&str>) -> Vec<String> {
    let text = clean(text.unwrap_or_default()).into_owned();
    text.lines().map(|line| format!("  {sign}{line}")).collect()
}
