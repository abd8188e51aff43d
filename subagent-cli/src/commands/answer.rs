//! `answer`: answers an elicitation.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value};
use subagent_protocol::Code;
use subagent_protocol::api::PendingApproval;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{ElicitationAction, QuestionKind};

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag, path};
use crate::commands::approval::open_request::{self, OpenRequest};
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::{CliOutcome, text};

/// Answer a form or a link that an agent asks you for
///
/// With --accept the fields of a form are filled in by --set or --content; the form says which there are, and of which
/// type (see `worker inspect`, or the event elicitation.requested). --decline refuses, and --cancel turns away. A link is
/// never opened by this program.
///
/// Other programs of the same user can see what you type, and the shell keeps it in its history.
/// Give a secret with --input - from a pipe. The daemon forgets the values as soon as the agent has
/// them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent answer --accept --set name=demo --set size=3
  subagent answer codex-1 --decline
  pass show token | jq -R '{action: \"accept\", content: {token: .}}' |
      subagent answer codex-1 --input - --json")]
pub(crate) struct AnswerArgs {
    /// A worker or a question [default: the one question that is open]
    #[arg(value_name = "WORKER|REQUEST", conflicts_with_all = ["worker_id", "request_id"])]
    pub(crate) target: Option<String>,
    /// The worker
    #[arg(long, alias = "worker", value_name = "WORKER")]
    pub(crate) worker_id: Option<String>,
    /// The id of the question [default: the one that is open]
    #[arg(id = "request_id", long = "request", alias = "request-id", value_name = "ID")]
    pub(crate) request: Option<String>,
    /// Give what is asked for
    #[arg(long, conflicts_with_all = ["decline", "cancel"])]
    pub(crate) accept: bool,
    /// Refuse to give it
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) decline: bool,
    /// Neither give nor refuse it
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Fill in a field; repeat it for a list
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// All fields as a JSON object
    #[arg(id = "content_json", long = "content", value_name = "JSON", conflicts_with = "set")]
    pub(crate) content: Option<String>,
    /// Read workerId, requestId, action, content from structured JSON, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The keys of `--input`, each with its flags.
const INPUT: &[InputField] = &[
    field("workerId", &["worker_id"], InputType::Text),
    field("requestId", &["request_id"], InputType::Text),
    field("action", &["action", "accept", "decline", "cancel"], InputType::Text),
    field("content", &["content_json", "set"], InputType::Object),
];

const KIND: QuestionKind = QuestionKind::Elicitation;

pub(super) fn run(args: AnswerArgs, context: &CliContext) -> Result<CliOutcome> {
    let input =
        InputObject::load(args.input.as_deref(), INPUT, &context.typed).map_err(Failure::wrong_usage)?;
    let either = |flag: Option<String>, key: &str| present(flag).or_else(|| input.text(key));
    let target = present(args.target);
    let worker_id = either(args.worker_id, "workerId");
    let request_id = either(args.request, "requestId");
    // A person's form names a worker, a request or nothing.
    let in_contract = request_id.is_some() || (args.input.is_some() && target.is_none());
    if worker_id.is_none() && in_contract {
        return Err(Failure::input("no worker: give --worker-id, or workerId in --input"));
    }
    let typed = match (args.accept, args.decline, args.cancel) {
        (true, ..) => Some(ElicitationAction::Accept),
        (_, true, _) => Some(ElicitationAction::Decline),
        (.., true) => Some(ElicitationAction::Cancel),
        _ => None,
    };
    let action = match (typed, input.text("action")) {
        (Some(action), _) => action,
        (None, Some(word)) => ElicitationAction::parse(&word).ok_or_else(|| {
            Failure::input("\"action\" in --input must be accept, decline or cancel").wrong_usage()
        })?,
        (None, None) => {
            if worker_id.is_none() && !in_contract {
                // A worker or a question that does not exist is named first.
                find(target.as_deref(), args.cwd.cwd.as_deref(), context)?;
            }
            return Err(Failure::input(
                "no answer: give --accept, --decline or --cancel, or action in --input",
            ));
        }
    };
    let content = match &args.content {
        Some(json) => Some(parse_content(json)?),
        None => input.object("content"),
    };
    let set = args.set.iter().map(|pair| parse_pair(pair)).collect::<Result<Vec<_>>>()?;
    let answer = subagent_protocol::api::Answer {
        action,
        content: content.map(Secret),
        set: (!set.is_empty()).then_some(Secret(set)),
    };
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    context.check_named_config(args.config.config.as_deref())?;
    if let Some(worker_id) = &worker_id {
        named_worker(worker_id, &workspace)?;
    } else if !has_state(&workspace) {
        return Err(open_request::none(target.as_deref(), KIND));
    }
    let mut client = DaemonClient::new(context, &workspace);
    let (data, worker) = block_on(async move {
        let (worker, worker_id, request_id) = match (worker_id, request_id) {
            (Some(worker), Some(request_id)) => (worker.clone(), worker, request_id),
            (Some(worker), None) => {
                let request_id = the_open_one(&mut client, &worker, &segment(&worker)).await?;
                (worker.clone(), worker, request_id)
            }
            (None, _) => {
                let found = open_request::find(&mut client, target.as_deref(), KIND).await?;
                (found.worker, found.worker_id, found.request_id)
            }
        };
        let path = format!("/v1/workers/{}/elicitations/{}", segment(&worker_id), segment(&request_id));
        Ok((client.ask(&ApiRequest::change(path, &answer)?).await?, worker))
    })?;
    let shown = text::fields(&data, &["requestId", "action", "delivery", "state"]);
    Ok(CliOutcome::report("elicitation.answered", data, shown).of_workers(&[worker]))
}

/// Finds the open question that `target` leads to.
fn find(target: Option<&str>, cwd: Option<&Path>, context: &CliContext) -> Result<OpenRequest> {
    let workspace = context.workspace(cwd)?;
    if !has_state(&workspace) {
        return Err(open_request::none(target, KIND));
    }
    block_on(open_request::find(&mut DaemonClient::new(context, &workspace), target, KIND))
}

/// The question that is open, if it is the only one.
async fn the_open_one(client: &mut DaemonClient, worker_id: &str, worker: &str) -> Result<String> {
    /// The pending requests of a worker.
    #[derive(Deserialize)]
    struct PendingRequests {
        items: Vec<PendingApproval>,
    }
    let path = format!("/v1/workers/{worker}/approvals");
    let listed: PendingRequests = client.ask_for(&ApiRequest::get(path)).await?;
    let forms = listed.items.iter().filter(|item| item.kind == KIND.as_str());
    let open: Vec<&str> = forms.map(|item| item.request_id.as_str()).collect();
    match open.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => {
            let message = "the worker's agent has no open question for `subagent answer`";
            Err(Failure::new(Code::ApprovalNotFound, message)
                .with("workerId", worker_id)
                .with("requestId", Value::Null))
        }
        several => {
            let message = format!("{} questions are open; say which one with --request", several.len());
            Err(Failure::input(message).with("requestIds", several.to_vec()))
        }
    }
}

/// What stands in an error must not be what was typed: it may be a secret.
fn parse_content(json: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(json) {
        Ok(Value::Object(content)) => Ok(content),
        Ok(_) => Err(Failure::input("--content must be a JSON object, a member for each field")),
        Err(error) => {
            let place = format!("line {}, column {}", error.line(), error.column());
            Err(Failure::input(format!("--content is not JSON (at {place})")))
        }
    }
}

fn parse_pair(pair: &str) -> Result<(String, String)> {
    match pair.split_once('=') {
        Some((field, value)) if !field.is_empty() => Ok((field.to_owned(), value.to_owned())),
        _ => Err(Failure::input("--set takes FIELD=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_at_the_first_sign() {
        assert_eq!(parse_pair("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert_eq!(parse_pair("a=").unwrap(), ("a".to_owned(), String::new()));
        for pair in ["hunter2", "=hunter2"] {
            let failure = parse_pair(pair).unwrap_err();
            assert!(failure.is(Code::InvalidInput) && !failure.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn content_is_an_object_and_never_repeated_in_an_error() {
        assert_eq!(parse_content(r#"{"a": 1}"#).unwrap()["a"], 1);
        for json in ["hunter2", "\"hunter2\"", r#"{"a": hunter2}"#] {
            let failure = parse_content(json).unwrap_err();
            assert!(failure.is(Code::InvalidInput) && !failure.to_string().contains("hunter2"), "{failure}");
        }
    }
}
