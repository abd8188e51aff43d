//! `tree`: workers and the tasks below them.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::api::{TaskView, WorkerView};
use subagent_protocol::children::ChildSession;
use subagent_protocol::clean::one_line;
use subagent_protocol::data::workers::UnreachableState;
use subagent_protocol::details::Cost;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, json};

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, into_items, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::commands::task::value;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::output::ago::elapsed;
use crate::output::human::now;
use crate::output::style::state_word;

/// Show workers and the tasks below them as a tree
///
/// Without a WORKER all that have tasks, and the tasks that a manager has given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent tree
  subagent tree w_0123456789 --json
  subagent tree --follow")]
pub(crate) struct TreeArgs {
    /// Only what is below this worker or task, and itself
    #[arg(value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// Show it again whenever it has changed, until nothing in it is open
    #[arg(long)]
    pub(crate) follow: bool,
    /// Also tasks that are archived or not inspectable
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

mod follow;

/// Deeper than any tree may be: what is stored cannot make this command go on for ever.
const DEEPEST: usize = 64;
/// What people read where there are none.
const NO_TASKS: &str = "(no tasks)";

pub(super) fn run(args: &TreeArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let wanted = present(args.worker.clone());
    let items = if has_state(&workspace) {
        let mut client = DaemonClient::new(context, &workspace);
        if args.follow {
            let watching = DaemonClient::new(context, &workspace);
            return follow::run(client, watching, wanted.as_deref(), args.all, args.json.json);
        }
        block_on(async { nodes(&mut client, wanted.as_deref(), args.all).await })?
    } else if let Some(worker) = wanted {
        let message = format!("there is no worker {worker}: nothing was started in this workspace so far");
        return Err(Failure::new(Code::WorkerNotFound, message).with("workerId", worker));
    } else {
        Vec::new()
    };
    let text = shown(&items, now());
    Ok(CliOutcome::list("tree.shown", data(items), text, NO_TASKS))
}

fn data(items: Vec<Value>) -> Value {
    json!({"count": items.len(), "items": items})
}

/// A worker or a task, as far as a tree shows it; the rest stays in its JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TreeNode<'a> {
    task_id: Option<&'a str>,
    worker_id: Option<&'a str>,
    parent: Option<&'a str>,
    name: Option<&'a str>,
    label: Option<&'a str>,
    /// Status of a task; absent for a worker.
    status: Option<&'a str>,
    /// State of a worker; absent for a task.
    state: Option<&'a str>,
    launcher: Option<&'a str>,
    /// The definition of a task; a shown worker has an object of this name.
    agent: Lenient<&'a str>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    tool_calls: Option<u64>,
    cost: Lenient<Cost>,
    unreachable: Lenient<UnreachableState>,
    child_sessions: Vec<ChildSession>,
}

impl<'a> TreeNode<'a> {
    fn of(node: &'a Value) -> Self {
        lenient::read(node)
    }

    fn id(&self) -> Option<&'a str> {
        self.task_id.or(self.worker_id)
    }
}

/// The roots, each with all that is below it.
async fn nodes(client: &mut DaemonClient, wanted: Option<&str>, all: bool) -> Result<Vec<Value>> {
    let listed = |path: &str| ApiRequest::get(RequestPath::new(path).with("all", all.then_some("true")));
    let tasks = into_items(client.ask(&listed("/v1/tasks")).await?);
    if let Some(wanted) = wanted {
        let path = format!("/v1/tasks/{}", segment(wanted));
        let root = match client.ask_for::<TaskView>(&ApiRequest::get(path)).await {
            Ok(task) => {
                let id = Some(task.task_id.as_str());
                let listed = tasks.iter().find(|listed| TreeNode::of(listed).task_id == id);
                listed.cloned().map_or_else(|| value(&task), Ok)?
            }
            Err(failure) if failure.is(Code::TaskNotFound) => client.ask(&worker(wanted)).await?,
            Err(failure) => return Err(failure),
        };
        return Ok(vec![grown(root, &below(&tasks), DEEPEST)]);
    }
    let workers = into_items(client.ask(&listed("/v1/workers")).await?);
    let mut roots = forest(workers, &tasks);
    for root in &mut roots {
        let Some(id) = TreeNode::of(root).worker_id.map(str::to_owned) else { continue };
        // A list does not have them, and the worker may be gone by now.
        let sessions = match client.ask_for::<WorkerView>(&worker(&id)).await {
            Ok(shown) => shown.child_sessions,
            Err(failure) if failure.is(Code::WorkerNotFound) => continue,
            Err(failure) => return Err(failure),
        };
        if !sessions.is_empty() {
            json::extend(root, [("childSessions", json!(sessions))]);
        }
    }
    Ok(roots)
}

fn worker(id: &str) -> ApiRequest {
    ApiRequest::get(format!("/v1/workers/{}", segment(id)))
}

/// The tasks by the worker whose they are.
fn below(tasks: &[Value]) -> BTreeMap<&str, Vec<&Value>> {
    let mut below: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for task in tasks {
        if let Some(parent) = TreeNode::of(task).parent {
            below.entry(parent).or_default().push(task);
        }
    }
    below
}

/// Returns the workers with tasks, and the tasks without a worker above them: those of a manager,
/// and those of removed workers.
fn forest(workers: Vec<Value>, tasks: &[Value]) -> Vec<Value> {
    let below = below(tasks);
    let task_ids: HashSet<&str> = tasks.iter().filter_map(|task| TreeNode::of(task).task_id).collect();
    let known: HashSet<String> =
        workers.iter().filter_map(|worker| TreeNode::of(worker).worker_id.map(str::to_owned)).collect();
    let is_root = |worker: &Value| {
        TreeNode::of(worker).worker_id.is_some_and(|id| below.contains_key(id) && !task_ids.contains(id))
    };
    let is_orphan = |task: &&Value| {
        let parent = TreeNode::of(task).parent;
        parent.is_none_or(|parent| !known.contains(parent) && !task_ids.contains(parent))
    };
    let roots = workers.into_iter().filter(is_root);
    let orphans = tasks.iter().filter(is_orphan).cloned();
    roots.chain(orphans).map(|root| grown(root, &below, DEEPEST)).collect()
}

fn grown(mut node: Value, below: &BTreeMap<&str, Vec<&Value>>, levels: usize) -> Value {
    let tasks = TreeNode::of(&node).id().and_then(|id| below.get(id)).filter(|_| levels > 0);
    let tasks = tasks.into_iter().flatten().map(|task| grown((*task).clone(), below, levels - 1));
    let tasks = tasks.collect();
    json::extend(&mut node, [("tasks", tasks)]);
    node
}

/// What is open: the words of tasks and of workers.
const OPEN: [&str; 6] = ["queued", "spawning", "starting", "running", "waiting_approval", "canceling"];

/// Whether something of it goes on, so that it will be another one.
fn is_open(node: &Value) -> bool {
    let TreeNode { status, state, .. } = TreeNode::of(node);
    status.or(state).is_some_and(|word| OPEN.contains(&word)) || tasks(node).iter().any(is_open)
}

/// The tasks of a node, each with those below it.
fn tasks(node: &Value) -> &[Value] {
    node.get("tasks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn shown(roots: &[Value], now: Timestamp) -> String {
    let mut lines = Vec::new();
    for root in roots {
        lines.push(line(root, now));
        branches(root, "", now, &mut lines);
    }
    lines.join("\n")
}

fn branches(node: &Value, indent: &str, now: Timestamp, lines: &mut Vec<String>) {
    let (tasks, sessions) = (tasks(node), TreeNode::of(node).child_sessions);
    let mut left = tasks.len() + sessions.len();
    let mut branch = || {
        left -= 1;
        if left == 0 { ("└─ ", "   ") } else { ("├─ ", "│  ") }
    };
    for task in tasks {
        let (branch, further) = branch();
        lines.push(format!("{indent}{branch}{}", line(task, now)));
        branches(task, &format!("{indent}{further}"), now, lines);
    }
    for session in &sessions {
        let (branch, _) = branch();
        lines.push(format!("{indent}{branch}{}", session_line(session)));
    }
}

/// A text of an agent or a person as a word of a line.
fn word(text: Option<&str>) -> Option<String> {
    text.map(one_line).filter(|word| !word.is_empty())
}

/// A session that an agent runs below its own.
fn session_line(session: &ChildSession) -> String {
    let parts = [
        word(session.title.as_deref()),
        word(session.state.as_deref()),
        Some("session".to_owned()),
        word(Some(&session.session_id)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// One worker or task: its name, how it is, who does it, how long, how much.
fn line(node: &Value, now: Timestamp) -> String {
    let node = TreeNode::of(node);
    let mut parts = Vec::new();
    // A label that was chosen says more than the name that every worker has; a task has no label.
    let label = word(node.label).filter(|label| !matches!(label.as_str(), "worker" | "run"));
    parts.extend(label.or_else(|| word(node.name)).or_else(|| word(node.label)));
    parts.extend(word(node.status).or_else(|| word(node.state)).map(|state| state_word(&state)));
    if let Some(unreachable) = &node.unreachable.0 {
        parts.push(format!("unreachable for {}", lasted(unreachable.since, now)));
    }
    parts.extend(word(node.agent.0).or_else(|| word(node.launcher)));
    if let Some(begun) = node.started_at.filter(|_| node.task_id.is_some()) {
        parts.push(lasted(begun, node.completed_at.unwrap_or(now)));
    }
    match node.tool_calls {
        None | Some(0) => {}
        Some(1) => parts.push("1 tool call".to_owned()),
        Some(calls) => parts.push(format!("{calls} tool calls")),
    }
    if let Some(Cost { amount, currency }) = &node.cost.0 {
        parts.push(format!("{amount:.2} {}", one_line(currency)));
    }
    parts.extend(node.id().map(str::to_owned));
    parts.join("  ")
}

/// How long something took, or has taken so far.
fn lasted(begun: Timestamp, ended: Timestamp) -> String {
    let millis = u64::try_from(ended.0.saturating_sub(begun.0)).unwrap_or(0);
    elapsed(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::TaskStatus;

    use super::*;

    fn task(id: &str, parent: Option<&str>) -> Value {
        json!({
            "taskId": id, "name": format!("Task {id}"), "parent": parent, "status": "running", "agent": "explore",
            "startedAt": "2026-11-21T20:29:42+00:00", "completedAt": null, "toolCalls": 2,
            "cost": {"amount": 0.125, "currency": "USD"},
        })
    }

    fn shown(items: &[Value]) -> String {
        super::shown(items, serde_json::from_value(json!("2026-11-21T20:31:45+00:00")).unwrap())
    }

    #[test]
    fn tasks_stand_below_whose_they_are() {
        let workers = ["w_root", "w_other", "w_1", "w_2", "w_3"];
        let workers =
            workers.map(|id| json!({"workerId": id, "label": "lead", "state": "idle", "launcher": "demo"}));
        let tasks = [
            task("w_1", Some("w_root")),
            task("w_2", Some("w_1")),
            task("w_3", Some("w_root")),
            task("w_4", None),
            task("w_5", Some("w_gone")),
        ];
        let items = forest(workers.to_vec(), &tasks);
        let rest = "running  explore  2m 03s  2 tool calls  0.12 USD";
        assert_eq!(
            shown(&items),
            format!(
                "lead  idle  demo  w_root\n\
                 ├─ Task w_1  {rest}  w_1\n\
                 │  └─ Task w_2  {rest}  w_2\n\
                 └─ Task w_3  {rest}  w_3\n\
                 Task w_4  {rest}  w_4\n\
                 Task w_5  {rest}  w_5"
            )
        );
        assert_eq!(items[0]["tasks"][0]["tasks"][0]["taskId"], "w_2");
    }

    #[test]
    fn sessions_of_an_agent_are_leaves_behind_its_tasks() {
        let mut root = json!({"workerId": "w_root", "label": "lead", "state": "idle", "launcher": "demo"});
        root["childSessions"] = json!([
            {"sessionId": "s1", "title": "look\u{1b}[2J around", "state": "running"},
            {"sessionId": "s2", "title": null, "state": null},
        ]);
        let node = grown(root, &below(&[task("w_1", Some("w_root"))]), 3);
        let lines = shown(std::slice::from_ref(&node));
        let expected = ["├─ Task w_1", "├─ look around  running  session  s1", "└─ session  s2"];
        for (line, begin) in lines.lines().skip(1).zip(expected) {
            assert!(line.starts_with(begin), "{lines}");
        }
        assert_eq!(lines.lines().count(), 4);
    }

    #[test]
    fn an_unreachable_worker_says_since_when() {
        let since = Timestamp(0);
        let root = json!({"workerId": "w_root", "state": "running", "unreachable": {"since": since}});
        let drawn = line(&root, Timestamp(180_000));
        assert!(drawn.contains("running  unreachable for 3m"), "{drawn}");
    }

    #[test]
    fn a_tree_is_open_as_long_as_something_in_it_is() {
        let idle = json!({"workerId": "w_root", "state": "idle", "tasks": [{"status": "completed"}]});
        assert!(!is_open(&idle));
        let deep = json!({"workerId": "w_root", "state": "idle", "tasks": [
            {"status": "completed", "tasks": [{"status": "queued"}]},
        ]});
        assert!(is_open(&deep));
        assert!(is_open(&json!({"workerId": "w_root", "state": "running", "tasks": []})));
        assert_eq!(
            OPEN.iter().filter(|word| TaskStatus::parse(word).is_some_and(|s| !s.is_end())).count(),
            4
        );
    }

    #[test]
    fn a_circle_in_what_is_stored_has_an_end() {
        let tasks = [task("w_1", Some("w_2")), task("w_2", Some("w_1"))];
        let node = grown(tasks[0].clone(), &below(&tasks), 3);
        assert_eq!(shown(std::slice::from_ref(&node)).lines().count(), 4);
    }
}
