//! The inbox: lists the open questions of all workers, shows one in full, and decides several at
//! once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Map, Value, json};
use subagent_core::model::{PermissionDecision, QuestionInput, Worker, WorkerInput, decision};
use subagent_protocol::api::{
    AllDecided, ApprovalDecided, ApprovalShown, Decide, DecideAll, DecidedOne, Inbox, InboxItem,
};
use subagent_protocol::clean::one_line;
use subagent_protocol::event::{ApprovalOption, EventType};
use subagent_protocol::ids::{EventId, RequestId, WorkerId};
use subagent_protocol::record::ApprovalRequested;
use subagent_protocol::state::{ApprovalStatus, Carrier, QuestionKind, WorkerState};
use subagent_protocol::tags::{Selector, Tags};
use subagent_protocol::tool_content::ToolCallReport;
use subagent_protocol::{Code, Error, Result};

use super::stored_decision::StoredDecision;
use super::{DELIVERY, delivery};
use crate::store::questions::inbox::{self, InboxRow};
use crate::store::questions::{self, ApprovalRow};
use crate::store::{Connection, OwnerCheck, RowId, WorkerRow, tasks, workers};
use crate::supervisor::orders::{RequestTarget, read_response};
use crate::supervisor::questions::standing_rules::allowing_rule;
use crate::supervisor::start::spec::Spec;
use crate::supervisor::worker::ActorHandle;
use crate::supervisor::{ApiCaller, Supervisor, policy, views};

/// Maximum length of the subject of a listed question, in characters.
const MAX_SUBJECT_CHARS: usize = 1000;
/// Attempts to decide all requests of a worker while some are decided by others meanwhile.
const MAX_ATTEMPTS: usize = 5;
/// Time that a list waits for workers that are not settled yet.
const SETTLE: Duration = Duration::from_secs(6);

/// Filter for listing questions. All given fields must match.
#[derive(Debug, Clone, Default)]
pub(crate) struct InboxFilter {
    /// Questions of these workers and of tasks below them. Empty: of all workers.
    pub workers: Vec<String>,
    /// Questions of this controller's workers.
    pub controller_id: Option<String>,
    /// Questions of workers with these tags, and of tasks below them.
    pub selector: Option<String>,
    /// Questions of this worker, for a caller that may not see others.
    pub only: Option<WorkerId>,
}

/// A filter with what it needs from the store.
struct InboxScan<'a> {
    filter: &'a InboxFilter,
    selector: Option<&'a Selector>,
    /// The named workers and the tasks below them.
    named: HashSet<RowId>,
    /// Cache: whether the selector matches a worker or one above it.
    selected: HashMap<RowId, bool>,
}

impl<'a> InboxScan<'a> {
    /// `named` has the workers of the filter.
    fn new(
        connection: &Connection,
        filter: &'a InboxFilter,
        selector: Option<&'a Selector>,
        named: &[RowId],
    ) -> Result<Self> {
        let mut all: HashSet<RowId> = named.iter().copied().collect();
        for worker in named {
            all.extend(tasks::events::below(connection, *worker)?);
        }
        Ok(Self { filter, selector, named: all, selected: HashMap::new() })
    }

    fn takes(&mut self, connection: &Connection, row: &InboxRow) -> Result<bool> {
        let InboxFilter { workers, controller_id, only, .. } = self.filter;
        Ok((workers.is_empty() || self.named.contains(&row.worker))
            && controller_id.as_ref().is_none_or(|wanted| wanted == row.controller_id.as_str())
            && only.as_ref().is_none_or(|only| *only == row.worker_id)
            && self.selects(connection, row)?)
    }

    fn selects(&mut self, connection: &Connection, row: &InboxRow) -> Result<bool> {
        let Some(selector) = self.selector else { return Ok(true) };
        if let Some(known) = self.selected.get(&row.worker) {
            return Ok(*known);
        }
        let specs = questions::below::specs_upwards(connection, row.worker)?;
        let tags = |spec: &String| {
            serde_json::from_str(spec).map_or_else(|_| Tags::default(), |spec: Spec| spec.tags)
        };
        let fits = specs.iter().map(tags).any(|tags| selector.matches(&tags));
        self.selected.insert(row.worker, fits);
        Ok(fits)
    }
}

/// Lists the open questions of all workers, oldest first. Questions of a task also belong to
/// the workers above it.
///
/// # Errors
/// `INVALID_ARGUMENT{selector,position}`, `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn inbox(supervisor: &Supervisor, filter: InboxFilter) -> Result<Inbox> {
    let chosen = filter.selector.as_deref().map(Selector::parse).transpose()?;
    all_settled(supervisor).await;
    let read = supervisor.shared.store.read(move |connection| {
        let mut named = Vec::with_capacity(filter.workers.len());
        for worker in &filter.workers {
            match workers::get(connection, worker)? {
                Some(row) => named.push(row.id),
                None => return Ok(Err(worker.clone())),
            }
        }
        let mut wanted = InboxScan::new(connection, &filter, chosen.as_ref(), &named)?;
        let items = inbox::open(connection, |row| match wanted.takes(connection, &row) {
            Ok(taken) => taken.then(|| Ok(listed(&row))),
            Err(error) => Some(Err(error)),
        });
        Ok(Ok(items?.into_iter().collect::<Result<Vec<InboxItem>>>()?))
    });
    match read.await? {
        Ok(items) => Ok(Inbox { count: items.len(), items }),
        Err(unknown) => Err(supervisor.roster.not_found(&unknown)),
    }
}

/// Waits until workers have read what was asked while no daemon ran.
async fn all_settled(supervisor: &Supervisor) {
    let handles = supervisor.roster.all();
    // An actor that ended counts as settled.
    let settled = futures_util::future::join_all(handles.iter().map(ActorHandle::settled));
    let _ = tokio::time::timeout(SETTLE, settled).await;
}

/// Returns one question in any state. The caller checks that it may be seen.
///
/// # Errors
/// `APPROVAL_NOT_FOUND{requestId}`, `STORAGE_ERROR`.
pub(crate) async fn show_approval(supervisor: &Supervisor, request_id: &str) -> Result<ApprovalShown> {
    let read = || {
        let asked = request_id.to_owned();
        supervisor.shared.store.read(move |connection| {
            Ok(inbox::get(connection, &asked)?.zip(Some(inbox::decider(connection, &asked)?)))
        })
    };
    let mut found = read().await?;
    if let Some((row, _)) = &found
        && let Ok(handle) = supervisor.roster.live(row.worker_id.as_str())
    {
        handle.settle().await;
        found = read().await?;
    } else if found.is_none() {
        all_settled(supervisor).await;
        found = read().await?;
    }
    let Some((row, decided_by)) = found else {
        return Err(Error::new(Code::ApprovalNotFound, "no worker has asked this question")
            .with("requestId", request_id)
            .recommend("`subagent approval list` shows the open questions"));
    };
    let item = listed(&row);
    let always_rule = always_rule(supervisor, &row).await?;
    let shown = views::question::pending_approval(row.asked.clone());
    let answers = match row.asked.status {
        ApprovalStatus::Pending => answers(&row, &shown.options),
        _ => Vec::new(),
    };
    let options = match row.asked.kind {
        QuestionKind::Permission => shown.options,
        QuestionKind::Elicitation => Vec::new(),
    };
    Ok(ApprovalShown {
        item,
        message: shown.message,
        cwd: row.cwd,
        options,
        request: shown.tool_call,
        decided_by,
        answers,
        always_rule,
    })
}

/// Returns the rule that "always allow" creates for an open permission request.
async fn always_rule(supervisor: &Supervisor, row: &InboxRow) -> Result<Option<String>> {
    if row.asked.status != ApprovalStatus::Pending || row.asked.kind != QuestionKind::Permission {
        return Ok(None);
    }
    let worker = supervisor.row(row.worker_id.as_str()).await?;
    allowing_rule(supervisor, &worker, &row.asked).await
}

/// Decides all open permission requests of a worker in one transaction, and waits briefly for
/// delivery to the agent. A request without a matching option stays open.
///
/// # Errors
/// As [`Self::decide`] for the worker. An error of a single request is part of its item.
pub(crate) async fn decide_all(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: DecideAll,
) -> Result<AllDecided> {
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("decide all {worker}"), &request)?;
    let response = match supervisor.recall(&key).await? {
        Some(response) => response,
        None => {
            supervisor.check_owner_of(&owner, &row).await?;
            let decided = decide_all_now(supervisor, &row, &request, owner, key.clone()).await;
            supervisor.or_earlier(&key, decided).await?
        }
    };
    let kept: Vec<KeptOne> = read_response(response)?;
    let decided = kept.iter().filter(|one| one.decision.is_some());
    let decided: Vec<RequestId> = decided.map(|one| one.request_id.clone()).collect();
    let (delivered, state) = deliveries(supervisor, worker, decided).await?;
    let items: Vec<DecidedOne> = kept
        .into_iter()
        .map(|KeptOne { request_id, decision, error }| DecidedOne {
            decided: decision.map(|decision| ApprovalDecided {
                worker_id: row.worker_id.clone(),
                request_id: request_id.clone(),
                decision: decision.decision,
                option_id: decision.option_id,
                alias: decision.alias,
                state,
                event_id: decision.event_id,
                delivery: delivered.get(&request_id).copied().unwrap_or("pending").to_owned(),
                always: None,
            }),
            request_id,
            error,
        })
        .collect();
    let decided = items.iter().filter(|item| item.decided.is_some()).count();
    Ok(AllDecided { count: items.len(), items, decided })
}

/// Waits briefly for delivery of these decisions. Returns their states then, and that of the
/// worker.
async fn deliveries(
    supervisor: &Supervisor,
    worker: &str,
    decided: Vec<RequestId>,
) -> Result<(HashMap<RequestId, &'static str>, WorkerState)> {
    if let Ok(handle) = supervisor.roster.live(worker) {
        let mut snapshots = handle.follow();
        let delivered = snapshots.wait_for(|snapshot| {
            let open = &snapshot.worker.approvals;
            !decided.iter().any(|request_id| open.contains_key(request_id))
        });
        // A timeout is reported as `pending`.
        let _ = tokio::time::timeout(DELIVERY, delivered).await;
    }
    let row = supervisor.row(worker).await?;
    let id = row.id;
    let read = supervisor.shared.store.read(move |connection| {
        let mut found = HashMap::new();
        for request_id in decided {
            let now = questions::list(connection, id, Some(request_id.as_str()))?.pop();
            found.insert(request_id, delivery(now.map_or(ApprovalStatus::Decided, |now| now.status)));
        }
        Ok(found)
    });
    Ok((read.await?, supervisor.view(&row).await.state))
}

/// Returns the worker that asks this question, if there is one.
pub(crate) async fn asking_worker(supervisor: &Supervisor, request_id: &str) -> Result<Option<WorkerId>> {
    let asked = request_id.to_owned();
    let found = supervisor.shared.store.read(move |connection| inbox::get(connection, &asked)).await?;
    Ok(found.map(|row| row.worker_id))
}

async fn decide_all_now(
    supervisor: &Supervisor,
    row: &WorkerRow,
    request: &DecideAll,
    owner: OwnerCheck,
    key: Option<(String, String)>,
) -> Result<Value> {
    let mut attempt = 1;
    loop {
        let handle = match supervisor.reach(row, &owner, &key).await? {
            RequestTarget::Live(handle) => handle,
            RequestTarget::Replayed(response) => return Ok(response),
        };
        let id = row.id;
        let open =
            supervisor.shared.store.read(move |connection| questions::list(connection, id, None)).await?;
        let chosen: Vec<(RequestId, Result<PermissionDecision>)> = open
            .iter()
            .filter(|row| row.kind == QuestionKind::Permission)
            .map(|row| (row.request_id.clone(), choose(row, &request.decision)))
            .collect();
        let choices: Vec<(RequestId, PermissionDecision)> = chosen
            .iter()
            .filter_map(|(id, choice)| Some((id.clone(), choice.as_ref().ok()?.clone())))
            .collect();
        let input = WorkerInput::Inbox(QuestionInput::DecideAll { choices, note: request.note.clone() });
        let respond = Box::new(move |_: &Worker, added: &[(EventType, i64)]| kept(&chosen, added));
        match supervisor.order(&handle, Some(owner.clone()), key.clone(), input, respond).await {
            // One of the requests was decided or closed after it was read.
            Err(error)
                if matches!(error.code, Code::ApprovalNotPending | Code::ApprovalNotFound)
                    && attempt < MAX_ATTEMPTS =>
            {
                attempt += 1;
            }
            result => return result,
        }
    }
}

/// The stored result of a request in a batch, for repetitions of the call.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptOne {
    request_id: RequestId,
    decision: Option<StoredDecision>,
    error: Option<Error>,
}

fn kept(chosen: &[(RequestId, Result<PermissionDecision>)], added: &[(EventType, i64)]) -> Value {
    let mut events = added.iter().filter(|(event_type, _)| *event_type == EventType::ApprovalDecided);
    let items = chosen.iter().map(|(request_id, choice)| match choice {
        Ok(choice) => {
            let event_id = EventId(events.next().map_or(0, |(_, seq)| *seq));
            KeptOne {
                request_id: request_id.clone(),
                decision: Some(StoredDecision::of(choice, event_id)),
                error: None,
            }
        }
        Err(error) => KeptOne { request_id: request_id.clone(), decision: None, error: Some(error.clone()) },
    });
    json!(items.collect::<Vec<_>>())
}

fn choose(row: &ApprovalRow, word: &str) -> Result<PermissionDecision> {
    let decide = Decide { decision: Some(word.to_owned()), ..Decide::default() };
    decision::choose(&views::question::approval_view(row).options, &decide)
}

/// Returns the listed form of a question.
pub(crate) fn listed(row: &InboxRow) -> InboxItem {
    let asked = &row.asked;
    let answer_time = row.deadline_at.and_then(|_| serde_json::from_str::<Spec>(&row.spec).ok()?.answer_time);
    let shown = views::question::pending_approval(asked.clone());
    let subject = subject(asked, &shown.tool_call).unwrap_or(shown.message);
    let tool_kind = ToolCallReport::of(&shown.tool_call).tool_kind.0.map(str::to_owned);
    InboxItem {
        request_id: asked.request_id.clone(),
        worker_id: row.worker_id.clone(),
        name: row.name.clone(),
        label: row.label.clone(),
        path: row.path.clone(),
        controller_id: row.controller_id.clone(),
        turn_id: asked.turn_id.clone(),
        kind: asked.kind,
        tool_kind,
        subject: one_line(&subject).chars().take(MAX_SUBJECT_CHARS).collect(),
        status: asked.status,
        created_at: asked.asked_at,
        deadline_at: row.deadline_at,
        on_timeout: answer_time.map(|time| time.on_timeout),
        rule: row.asked_by.clone(),
    }
}

fn subject(asked: &ApprovalRow, reported: &Map<String, Value>) -> Option<String> {
    let text =
        |name: &str| reported.get(name)?.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    match (asked.kind, asked.carrier) {
        (QuestionKind::Permission, Carrier::Runtime) => {
            let record: ApprovalRequested = serde_json::from_str(&asked.asked).ok()?;
            text("command").or_else(|| policy::call_of(&record).0.subject()).or_else(|| text("title"))
        }
        (QuestionKind::Permission, Carrier::Local) => None,
        (QuestionKind::Elicitation, _) => text("url"),
    }
}

/// Returns the commands with which a user can answer.
fn answers(row: &InboxRow, options: &[ApprovalOption]) -> Vec<String> {
    let (worker, request) = (&row.worker_id, &row.asked.request_id);
    if row.asked.kind == QuestionKind::Elicitation {
        let command = format!("subagent answer --worker-id {worker} --request {request}");
        return ["--accept", "--decline", "--cancel"].map(|flag| format!("{command} {flag}")).to_vec();
    }
    let command = format!("subagent approve --worker-id {worker} --request {request}");
    let decides = |word: &str| {
        let decide = Decide { decision: Some(word.to_owned()), ..Decide::default() };
        decision::choose(options, &decide).is_ok()
    };
    let words = ["allow", "deny", "cancel"].into_iter().filter(|word| decides(word));
    words.map(|word| format!("{command} --decision {word}")).collect()
}
