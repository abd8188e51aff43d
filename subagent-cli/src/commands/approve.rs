//! `approve`: answers a permission request, or all of a worker.

pub(crate) mod each;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use subagent_protocol::api::{AllDecided, ApprovalDecided, Decide, DecideAll, DecidedOne, Inbox, RuleScope};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::QuestionKind;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment, view};
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag, path};
use crate::commands::approval::open_request;
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::{CliOutcome, json, text};

/// Answer a permission request
///
/// Without an argument the one request that is open is answered; a worker stands for the one request that is open in
/// it and in the tasks below it. Without a decision the request is allowed once.
///
/// The first of --option-id, --alias and --decision counts. A decision is an option's alias or id, or a word like
/// allow, approve, yes, reject, deny, no.
///
/// With --always the decision becomes a rule of ours (see policy rules list) for exactly this command, path or address;
/// an agent's own option like allow_always is kept by the agent, and may mean more.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent approve
  subagent approve codex-1 --always
  subagent approve ap_0123456789 --decision reject --note 'not on main'
  subagent approve codex-1 --all --decision deny
  subagent approve --worker-id w_0123456789 --request ap_0123456789 \\
      --option-id reject_once --json")]
pub(crate) struct ApproveArgs {
    /// A worker or a request [default: the one request that is open]
    ///
    /// At a terminal, if several are open: each of them, asked in place.
    #[arg(value_name = "WORKER|REQUEST", conflicts_with_all = ["worker_id", "request_id"])]
    pub(crate) target: Option<String>,
    /// The worker
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker_id: Option<String>,
    /// The id of the permission request
    #[arg(id = "request_id", long = "request", value_name = "ID")]
    pub(crate) request: Option<String>,
    /// All open permission requests of the worker
    #[arg(long, conflicts_with_all = ["request_id", "option_id", "alias", "always"])]
    pub(crate) all: bool,
    /// With --all: also those of the tasks below the worker
    #[arg(long, requires = "all")]
    pub(crate) tree: bool,
    /// allow, reject, or an option's alias or id [default: allow]
    #[arg(long, value_name = "WORD")]
    pub(crate) decision: Option<String>,
    /// Answer the same from now on: for this worker, or all of its controller
    ///
    /// Without a value: worker.
    #[arg(long, value_name = "worker|controller", num_args = 0..=1, default_missing_value = "worker")]
    pub(crate) always: Option<String>,
    /// Exactly this option
    #[arg(long, value_name = "ID")]
    pub(crate) option_id: Option<String>,
    /// The option with exactly this alias
    #[arg(long)]
    pub(crate) alias: Option<String>,
    /// A note for the journal
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Read workerId, requestId, decision, ... from structured JSON, - for stdin
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
pub(crate) const INPUT: &[InputField] = &[
    field("workerId", &["worker_id"], InputType::Text),
    field("requestId", &["request_id"], InputType::Text),
    field("decision", &["decision"], InputType::Text),
    field("optionId", &["option_id"], InputType::Text),
    field("alias", &["alias"], InputType::Text),
    field("note", &["note"], InputType::Text),
    field("all", &["all"], InputType::Bool),
    field("tree", &["tree"], InputType::Bool),
    field("always", &["always"], InputType::Text),
];

const KIND: QuestionKind = QuestionKind::Permission;

pub(super) fn run(args: ApproveArgs, context: &CliContext) -> Result<CliOutcome> {
    let is_new = args.target.is_some();
    let input = InputObject::load(args.input.as_deref(), INPUT, &context.typed)
        .map_err(|error| error.wrong_usage_if(is_new))?;
    let either = |flag: Option<String>, key: &str| present(flag).or_else(|| input.text(key));
    let all = args.all || input.flag("all").unwrap_or(false);
    let tree = args.tree || input.flag("tree").unwrap_or(false);
    if tree && !all {
        return Err(Failure::input(
            "\"tree\" is for \"all\": it decides what the tasks below the worker ask, too",
        ));
    }
    let target = present(args.target);
    let worker_id = either(args.worker_id, "workerId").or_else(|| target.clone().filter(|_| all));
    let request_id = either(args.request, "requestId");
    // A person's form names a worker, a request or nothing.
    let in_contract = args.input.is_some() && target.is_none();
    let finds = !all && worker_id.is_none() && request_id.is_none() && !in_contract;
    if worker_id.is_none() && !finds {
        return Err(Failure::input(match all {
            true => "no worker: --all decides what one worker asks; name one, or give workerId in --input",
            false => "no worker: give --worker-id, or workerId in --input",
        }));
    }
    let always = match either(args.always, "always") {
        None => None,
        Some(word) => Some(RuleScope::parse(&word).ok_or_else(|| {
            Failure::argument(format!("--always {word} is neither worker nor controller"))
                .with("always", word)
        })?),
    };
    let mut decision = Decide {
        decision: either(args.decision, "decision"),
        option_id: either(args.option_id, "optionId"),
        alias: either(args.alias, "alias"),
        note: either(args.note, "note"),
        always,
    };
    if !all && request_id.is_none() && !finds {
        return Err(Failure::input("no permission request: give --request, or requestId in --input"));
    }
    let says_nothing =
        matches!(decision, Decide { decision: None, option_id: None, alias: None, note: None, always: None });
    // A request is answered at once, and one question of a worker too; several are asked one after the other.
    let asks =
        finds && says_nothing && target.as_ref().is_none_or(|target| target.parse::<RequestId>().is_err());
    if finds && decision.decision.is_none() && decision.option_id.is_none() && decision.alias.is_none() {
        decision.decision = Some("allow".to_owned());
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    context.check_named_config(args.config.config.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    if asks
        && has_state(&workspace)
        && let Some(outcome) = each::run(&mut client, target.as_deref(), &workspace, context)?
    {
        return Ok(outcome);
    }
    let (worker, worker_id, request_id) = match worker_id {
        Some(worker_id) => (worker_id.clone(), worker_id, request_id),
        None if !has_state(&workspace) => return Err(open_request::none(target.as_deref(), KIND)),
        None => {
            let found = block_on(open_request::find(&mut client, target.as_deref(), KIND))?;
            (found.worker, found.worker_id, Some(found.request_id))
        }
    };
    let ask = match (all, request_id) {
        (true, None) => {
            let (Decide { option_id: None, alias: None, always: None, .. }, Some(word)) =
                (&decision, &decision.decision)
            else {
                return Err(Failure::input(
                    "--all needs --decision: options and rules belong to single requests",
                ));
            };
            let request = DecideAll { decision: word.clone(), note: decision.note.clone() };
            named_worker(&worker_id, &workspace)?;
            if tree {
                return decided_all(block_on(all_of_tree(&mut client, &worker_id, &request))?);
            }
            ApiRequest::change(format!("/v1/workers/{}/approvals", segment(&worker_id)), &request)?
        }
        (true, Some(_)) => {
            return Err(Failure::input("a request and --all are given; give one of them"));
        }
        (false, request_id) => {
            let request_id = request_id.unwrap_or_default();
            let worker_id = segment(named_worker(&worker_id, &workspace)?);
            ApiRequest::change(
                format!("/v1/workers/{worker_id}/approvals/{}", segment(&request_id)),
                &decision,
            )?
        }
    };
    let data = block_on(async move {
        if always.is_some() {
            // A daemon that knows no such rules would decide all the same, and once.
            client.ask(&ApiRequest::get("/v1/rules")).await?;
        }
        client.ask(&ask).await
    })?;
    if all {
        return decided_all(data);
    }
    let mut shown = text::fields(&data, &["requestId", "decision", "state"]);
    let decided: ApprovalDecided = view(&data)?;
    if let Some(rule) = decided.always {
        shown.push('\n');
        shown.push_str(&text::fields(&json!(rule), &["ruleId", "action", "rule", "scope"]));
    }
    Ok(CliOutcome::report("approval.decided", data, shown).of_workers(&[worker]))
}

/// Decides all requests of a worker, and then those of each task below it that asks something.
async fn all_of_tree(client: &mut DaemonClient, worker_id: &str, request: &DecideAll) -> Result<Value> {
    let path = RequestPath::new("/v1/approvals").with("workerId", Some(worker_id));
    let open: Inbox = client.ask_for(&ApiRequest::get(path)).await?;
    // The worker itself, also if it asks nothing: it may not be the caller's.
    let mut workers = vec![worker_id];
    for item in &open.items {
        if !workers.contains(&item.worker_id.as_str()) {
            workers.push(item.worker_id.as_str());
        }
    }
    let (mut items, mut decided) = (Vec::new(), 0);
    for worker in workers {
        let path = format!("/v1/workers/{}/approvals", segment(worker));
        let all: AllDecided = client.ask_for(&ApiRequest::change(path, request)?).await?;
        decided += all.decided;
        for one in all.items {
            let mut item = json!(one);
            json::extend(&mut item, [("workerId", worker.into())]);
            items.push(item);
        }
    }
    Ok(json!({"count": items.len(), "decided": decided, "items": items}))
}

fn decided_all(data: Value) -> Result<CliOutcome> {
    let all: AllDecided = view(&data)?;
    let shown = all.items.iter().map(row).collect::<Vec<_>>().join("\n");
    Ok(CliOutcome::list("approvals.decided", data, shown, "(nothing is asked)"))
}

/// What became of one of several requests.
fn row(one: &DecidedOne) -> String {
    let (outcome, delivery) = match (&one.decided, &one.error) {
        (Some(decided), _) => (decided.option_id.as_str(), decided.delivery.as_str()),
        (None, error) => (error.as_ref().map_or("", |error| error.code.as_str()), ""),
    };
    [one.request_id.as_str(), outcome, delivery].map(text::plain).join("\t")
}
