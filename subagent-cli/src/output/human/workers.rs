//! Workers: list, one of them, start, stop, inspection.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use subagent_protocol::api::{
    AgentView, LatestHandoff, ParkedView, PendingApproval, UNLABELED, UNLABELED_RUN, WorkerLogs, WorkerShown,
    WorkerStopped, WorkerView,
};
use subagent_protocol::budget::WorkerBudget;
use subagent_protocol::data::workers::{PendingPlace, UnreachableState};
use subagent_protocol::event::{EventType, SeenEvent};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::lenient;
use subagent_protocol::sandbox::Sandbox;
use subagent_protocol::start::RuntimeLimits;
use subagent_protocol::state::{OnRateLimit, QuestionKind, WorkerState};
use subagent_protocol::time::Timestamp;

use super::budgets;
use super::conversation::event::write as write_event;
use super::conversation::questions::{answering, elicitation, open};
use super::conversation::turns::{AskedApproval, approval};
use super::removal::bytes;
use super::usual::text;
use super::view::{Named, PageRenderer, called, optional, shown as value};
use super::worktrees;
use crate::output::ago::elapsed;
use crate::output::style::Style;
use crate::output::table::Table;

/// A longer line of a worker is cut in a view.
const MAX_LINES: usize = 8;

/// A worker of `worker list`, with what the command adds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedWorker {
    #[serde(flatten)]
    worker: WorkerView,
    /// The state directory, with `--all-workspaces`.
    #[serde(default)]
    state_dir: String,
}

pub(super) fn listed(view: &mut PageRenderer, workers: &[ListedWorker]) {
    if workers.is_empty() {
        view.page.plain("No workers.").end();
        view.next("Start one:", "subagent worker start --launcher NAME");
        return;
    }
    let mut table =
        Table::new(&["NAME", "STATE", "LABEL", "LAUNCHER", "ROLE", "CHANGED", "WORKER", "STATE DIR"]);
    for ListedWorker { worker, state_dir } in workers {
        let (style, state) = state_of(view, worker);
        let changed = view.ago(worker.updated_at);
        table.row([
            (Style::Strong, name(worker)),
            (style, &state),
            (Style::Plain, &worker.label),
            (Style::Plain, &worker.launcher),
            (Style::Plain, &worker.role),
            (Style::Dim, &changed),
            (Style::Dim, worker.worker_id.as_str()),
            (Style::Dim, state_dir),
        ]);
    }
    view.put(&table);
}

fn name(worker: &WorkerView) -> &str {
    called(&worker.name, worker.worker_id.as_str())
}

/// The state of a worker in a table.
fn state(
    view: &PageRenderer,
    state: WorkerState,
    (unresponsive, hibernated): (bool, bool),
    parked: Option<ParkedView>,
    unreachable: Option<&UnreachableState>,
) -> (Style, String) {
    if let Some(UnreachableState { since, .. }) = unreachable {
        return (Style::Bad, format!("{state} (unreachable for {})", view.since(*since)));
    }
    match (unresponsive, parked, hibernated) {
        (true, ..) => (Style::Bad, format!("{state} (hangs)")),
        (false, Some(parked), _) => (Style::Attention, format!("parked ({} left)", view.left(parked.until))),
        (false, None, true) => (Style::of_state(state.as_str()), format!("{state} (hibernates)")),
        (false, None, false) => (Style::of_state(state.as_str()), state.as_str().replace('_', " ")),
    }
}

fn state_of(view: &PageRenderer, worker: &WorkerView) -> (Style, String) {
    let marks = (worker.unresponsive, worker.hibernated);
    state(view, worker.state, marks, worker.parked, worker.unreachable.as_ref())
}

/// A worker of `ls`, with what it asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AskingWorker {
    #[serde(flatten)]
    worker: WorkerView,
    #[serde(default)]
    asks: String,
    request_kind: Option<QuestionKind>,
    /// The host, with `--all-hosts`; `None` is this machine.
    host: Option<String>,
}

impl AskingWorker {
    /// The name, after that of its host.
    fn address(&self) -> String {
        let name = name(&self.worker);
        self.host.as_ref().map_or_else(|| name.to_owned(), |host| format!("{host}/{name}"))
    }
}

/// A host of `ls --all-hosts`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedHost {
    host: String,
    last_answered: Option<Timestamp>,
    error: Option<HostError>,
}

/// Why a host is without workers in the list.
#[derive(Debug, Deserialize)]
struct HostError {
    #[serde(default)]
    message: String,
}

/// The data of `ls`.
#[derive(Debug, Deserialize)]
pub(super) struct ListOverview {
    items: Vec<AskingWorker>,
    #[serde(default)]
    hosts: Vec<ListedHost>,
}

/// `ls`: who is alive, and what is asked.
pub(super) fn overview(view: &mut PageRenderer, list: &ListOverview) {
    let workers = &list.items;
    let silent: Vec<_> = list.hosts.iter().filter_map(|host| Some((host, host.error.as_ref()?))).collect();
    if workers.is_empty() && silent.is_empty() {
        view.page.plain("No worker is alive.").end();
        view.next("Start one:", "subagent run -d AGENT 'WHAT TO DO'");
        return;
    }
    let mut table = Table::new(&["NAME", "STATE", "ASKS", "LAUNCHER", "CHANGED", "LABEL", "WORKER"]);
    for item in workers {
        let AskingWorker { worker, asks, .. } = item;
        let (style, state) = state_of(view, worker);
        let changed = view.ago(worker.updated_at);
        let label = match worker.label.as_str() {
            UNLABELED | UNLABELED_RUN => "",
            label => label,
        };
        table.row([
            (Style::Strong, &item.address()),
            (style, &state),
            (Style::Attention, asks),
            (Style::Plain, &worker.launcher),
            (Style::Dim, &changed),
            (Style::Plain, label),
            (Style::Dim, worker.worker_id.as_str()),
        ]);
    }
    for (host, error) in silent {
        let answered = host.last_answered.map_or_else(|| "never".to_owned(), |at| view.ago(at));
        table.row([
            (Style::Strong, &format!("{}/", host.host)),
            (Style::Bad, "no answer"),
            (Style::Plain, ""),
            (Style::Plain, ""),
            (Style::Dim, &answered),
            (Style::Bad, &error.message),
            (Style::Dim, ""),
        ]);
    }
    view.put(&table);
    let asking = workers.iter().find_map(|item| Some((item, item.request_kind?)));
    if let Some((item, kind)) = asking {
        let at = item.host.as_ref().map_or_else(String::new, |host| format!("--host {host} "));
        view.next("Answer:", &format!("subagent {at}{} {}", answering(kind), name(&item.worker)));
    }
}

/// The part that the responses to changes of a worker share.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangedWorker {
    worker_id: WorkerId,
    #[serde(default)]
    name: String,
    state: WorkerState,
    #[serde(default)]
    unresponsive: bool,
    #[serde(default)]
    hibernated: bool,
    parked: Option<ParkedView>,
    unreachable: Option<UnreachableState>,
}

/// What became of a worker, in one line.
pub(super) fn changed(view: &mut PageRenderer, worker: &ChangedWorker) {
    let marks = (worker.unresponsive, worker.hibernated);
    let (style, state) = state(view, worker.state, marks, worker.parked, worker.unreachable.as_ref());
    let name = called(&worker.name, worker.worker_id.as_str());
    view.page.word(Style::Strong, name).plain("  ").word(style, &state).end();
}

/// A worker of `worker set`: the parts of the response that belong to what was set.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetWorker {
    worker_id: WorkerId,
    #[serde(default)]
    name: String,
    applied: Option<bool>,
    #[serde(default)]
    chosen: Value,
    #[serde(default)]
    current: Value,
    /// Null means that it never ends.
    #[serde(default, deserialize_with = "present")]
    idle_timeout_ms: Option<Option<u64>>,
    on_rate_limit: Option<OnRateLimit>,
    budget: Option<WorkerBudget>,
}

/// Deserializes a present value, including null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// What was set of a worker.
pub(super) fn set(view: &mut PageRenderer, worker: &SetWorker) {
    let name = called(&worker.name, worker.worker_id.as_str());
    view.page.word(Style::Strong, name).end();
    let idle = match worker.idle_timeout_ms {
        None => String::new(),
        Some(None) => "never".to_owned(),
        Some(Some(millis)) => elapsed(Duration::from_millis(millis)),
    };
    view.facts(&[
        ("agent has it", Style::Plain, optional(worker.applied.map(|is| if is { "yes" } else { "no" }))),
        ("chosen", Style::Plain, text(&worker.chosen)),
        ("current", Style::Plain, text(&worker.current)),
        ("idle timeout", Style::Plain, idle),
        ("at a rate limit", Style::Plain, optional(worker.on_rate_limit)),
    ]);
    if let Some(budget) = &worker.budget {
        budgets::of_worker(view, name, budget);
    }
}

/// A worker of `wait`. `wait` without `-l` gives its own words for the outcome.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitedRow {
    /// The address while the daemon has found nothing.
    worker_id: String,
    #[serde(default)]
    name: String,
    outcome: String,
    #[serde(default)]
    matched_event: Value,
    line: Option<String>,
    #[serde(default)]
    advice: Vec<String>,
    answer: Option<String>,
}

impl WaitedRow {
    fn name(&self) -> &str {
        called(&self.name, &self.worker_id)
    }

    /// Whether the event is a question.
    fn asks(&self) -> bool {
        self.event().data.request_id.is_some()
    }

    fn event(&self) -> SeenEvent<'_, AskedApproval<'_>> {
        SeenEvent::of(&self.matched_event)
    }
}

/// What a wait found of several workers.
pub(super) fn waited(view: &mut PageRenderer, workers: &[WaitedRow]) {
    if workers.iter().any(|worker| worker.line.is_some()) {
        return rested(view, workers);
    }
    let mut table = Table::new(&["NAME", "OUTCOME", "ASKS", "EVENT"]);
    for worker in workers {
        let event = worker.event();
        let message = event.data.message.filter(|_| worker.asks()).unwrap_or_default();
        table.row([
            (Style::Strong, worker.name()),
            (Style::of_state(&worker.outcome), &worker.outcome),
            (Style::Attention, message),
            (Style::Dim, event.kind),
        ]);
    }
    view.put(&table);
    if let Some(asking) = workers.iter().find(|worker| worker.asks()) {
        let is_form = asking.event().event_type() == Some(EventType::ElicitationRequested);
        let kind = if is_form { QuestionKind::Elicitation } else { QuestionKind::Permission };
        view.next("Answer:", &format!("subagent {} {}", answering(kind), asking.name()));
    }
}

/// What workers came to that were waited for by name: of each the outcome, and below it what it said or asks.
fn rested(view: &mut PageRenderer, workers: &[WaitedRow]) {
    for worker in workers {
        let (style, mark) = match worker.outcome.as_str() {
            "needs_answer" => (Style::Attention, "  ? "),
            outcome => (Style::of_state(outcome), "  "),
        };
        view.page.word(Style::Strong, worker.name()).plain("  ");
        view.page.word(style, &worker.outcome.replace('_', " ")).end();
        let line = worker.line.as_deref().unwrap_or_default();
        view.page.prose(Style::Plain, mark, "  ", line, MAX_LINES);
        for advice in &worker.advice {
            view.page.prose(Style::Plain, "  ", "  ", advice, MAX_LINES);
        }
    }
    for command in workers.iter().filter_map(|worker| worker.answer.as_deref()) {
        view.next("Answer:", command);
    }
}

pub(super) fn shown(view: &mut PageRenderer, shown: &WorkerShown) {
    whole(view, &shown.worker, Some(&shown.agent));
}

/// A worker, and what its agent reports.
fn whole(view: &mut PageRenderer, worker: &WorkerView, reported: Option<&AgentView>) {
    heading(view, worker);
    facts(view, worker);
    if let Some(reported) = reported {
        agent(view, reported);
    }
    open(view, worker);
    if let Some(PendingPlace { since, engine, handle, reason }) = &worker.pending {
        let since = view.since(*since);
        let said = format!("Its job {handle} has waited in the queue of {engine} for {since}: {reason}.");
        view.page.prose(Style::Attention, "  ", "  ", &said, MAX_LINES);
    }
    if let Some(unreachable) = &worker.unreachable {
        self::unreachable(view, unreachable);
    } else if worker.unresponsive {
        view.page.text(Style::Bad, "  Its runtime is alive but does not answer.").end();
    }
}

/// Since when and why a worker is not reached, and what that means.
fn unreachable(view: &mut PageRenderer, unreachable: &UnreachableState) {
    let (since, heard) = (view.since(unreachable.since), view.ago(unreachable.last_heard));
    let heard = if heard.is_empty() { String::new() } else { format!(", last heard {heard}") };
    let said = format!("Its place has not answered for {since}{heard}. What it was doing may go on there.");
    view.page.prose(Style::Bad, "  ", "  ", &said, MAX_LINES);
    if let Some(reason) = &unreachable.reason {
        view.page.prose(Style::Bad, "  ", "  ", &reason.to_string(), MAX_LINES);
    }
    let gibibytes = RuntimeLimits::default().journal_quota_bytes >> 30;
    let said = format!(
        "Requests are stored and delivered when it answers. Its agent is read until {gibibytes} GiB of its reports \
         wait there, and not further."
    );
    view.page.prose(Style::Plain, "  ", "  ", &said, MAX_LINES);
}

/// Label, id and state.
fn heading(view: &mut PageRenderer, worker: &WorkerView) {
    view.page.word(Style::Strong, name(worker)).plain("  ");
    view.state(worker.state.as_str());
    view.page.plain("  ").rest(Style::Plain, &worker.label).end();
}

fn facts(view: &mut PageRenderer, worker: &WorkerView) {
    let id =
        (!worker.name.is_empty() && worker.name != worker.worker_id.as_str()).then_some(&worker.worker_id);
    view.facts(&[
        ("worker", Style::Plain, optional(id)),
        ("launcher", Style::Plain, worker.launcher.clone()),
        ("role", Style::Plain, worker.role.clone()),
        ("cwd", Style::Plain, worker.cwd.clone()),
        ("branch", Style::Plain, optional(worker.worktree.as_ref().map(|worktree| &worktree.branch))),
        ("on", Style::Plain, placement(worker)),
        ("sandbox", Style::Plain, sandbox(worker)),
        ("controller", Style::Plain, worker.controller_id.to_string()),
        ("session", Style::Plain, worker.session_id.clone()),
        ("turn", Style::Active, optional(worker.active_turn_id.as_ref())),
        ("runtime pid", Style::Plain, optional(worker.runtime_pid)),
        ("parked", Style::Attention, optional(worker.parked.map(|parked| self::parked(view, parked)))),
        ("at a rate limit", Style::Plain, optional(worker.on_rate_limit)),
        ("hibernates", Style::Plain, view.ago(worker.hibernated_at)),
        ("hibernation", Style::Attention, optional(worker.hibernation.as_ref())),
        ("recovery", Style::Plain, worker.recovery_state.clone()),
        ("created", Style::Dim, view.ago(worker.created_at)),
        ("changed", Style::Dim, view.ago(worker.updated_at)),
        ("stopped", Style::Dim, view.ago(worker.stopped_at)),
        ("last error", Style::Bad, optional(worker.last_error.as_ref())),
    ]);
}

/// Until when a worker is parked, and why.
fn parked(view: &PageRenderer, parked: ParkedView) -> String {
    let (left, reason) = (view.left(parked.until), parked.reason.as_str().replace('_', " "));
    format!("{left} left, until {} ({reason})", parked.until)
}

/// The other machine or container where a worker runs.
pub(super) fn placement(worker: &WorkerView) -> String {
    let shown = worker.placement.as_ref().map(|on| match on.host.as_ref().or(on.image.as_ref()) {
        Some(place) if *place != on.name => format!("{} ({} {place})", on.name, on.kind),
        _ => on.name.clone(),
    });
    shown.unwrap_or_default()
}

/// What an agent may reach, and what enforces it.
pub(super) fn sandbox(worker: &WorkerView) -> String {
    let absent = worker.no_sandbox.as_ref().map(|why| format!("none: {why}"));
    worker.sandbox.as_ref().map(enforced).or(absent).unwrap_or_default()
}

fn enforced(sandbox: &Sandbox) -> String {
    let (files, network) = (sandbox.spec.filesystem.as_str(), sandbox.spec.network);
    let name = sandbox.spec.name.as_deref().filter(|name| *name != files);
    let name = optional(name.map(|name| format!("{name}: ")));
    let layers: Vec<&str> = sandbox.layers.names().collect();
    format!("{name}{files}, network {network} ({})", layers.join(", "))
}

/// What the agent reports of itself; what it does not report is left out.
fn agent(view: &mut PageRenderer, agent: &AgentView) {
    let context = match (agent.context_used, agent.context_size) {
        (None, None) => String::new(),
        (Some(used), None) => format!("{used} tokens"),
        (None, Some(size)) => format!("of {size} tokens"),
        (Some(used), Some(size)) => format!("{used} of {size} tokens"),
    };
    let words = [&agent.name, &agent.version].map(|word| word.as_deref().unwrap_or_default());
    let cost = agent.cost.as_ref().map(|cost| format!("{} {}", value(&cost.amount.into()), cost.currency));
    view.facts(&[
        ("agent", Style::Plain, words.join(" ").trim().to_owned()),
        ("title", Style::Plain, optional(agent.title.as_ref())),
        ("model", Style::Plain, optional(agent.model.as_ref())),
        ("mode", Style::Plain, optional(agent.mode.as_ref())),
        ("context", Style::Plain, context),
        ("cost", Style::Plain, optional(cost)),
        ("tokens", Style::Plain, tokens(agent).join(", ")),
        ("active", Style::Dim, view.ago(agent.last_activity_at)),
        ("restarts", Style::Plain, optional(Some(agent.restarts).filter(|restarts| *restarts > 0))),
        ("memory", Style::Plain, optional(agent.memory_bytes.map(bytes))),
    ]);
}

/// The tokens of an agent's last turn, by the names that the agent gives them.
pub(super) fn tokens(agent: &AgentView) -> Vec<String> {
    let counts = agent.tokens.as_ref().and_then(Value::as_object).into_iter().flatten();
    counts.map(|(name, count)| format!("{name} {}", value(count))).collect()
}

pub(super) fn started(view: &mut PageRenderer, worker: &WorkerView) {
    heading(view, worker);
    facts(view, worker);
    view.next("Next:", &format!("subagent send {} '...'", name(worker)));
}

/// Data of `worker.continued`, as far as it is shown.
#[derive(Debug, Deserialize)]
pub(super) struct Continued {
    worker: WorkerView,
}

pub(super) fn continued(view: &mut PageRenderer, continued: &Continued) {
    started(view, &continued.worker);
}

pub(super) fn stopped(view: &mut PageRenderer, stopped: &Named<WorkerStopped>) {
    let worker = &stopped.of;
    view.page.word(Style::Strong, called(&stopped.name, worker.worker_id.as_str())).plain("  ");
    view.state(worker.state.as_str());
    let when = view.ago(worker.stopped_at);
    view.page.plain("  ").word(Style::Dim, &when).end();
    if let Some(worktree) = &worker.worktree {
        worktrees::end(view, worktree);
    }
}

/// `None`, and so the text as it is, if there is any.
pub(super) fn logs(view: &mut PageRenderer, logs: &WorkerLogs) -> Option<()> {
    if !logs.text.is_empty() {
        return None;
    }
    view.page.word(Style::Dim, "(nothing on standard error)").end();
    Some(())
}

/// Data of `worker.inspected`. The events keep the form in which every event is shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inspection {
    worker: WorkerView,
    pending_approvals: Vec<PendingApproval>,
    latest_handoff: Option<LatestHandoff>,
    events: Vec<Value>,
}

pub(super) fn inspected(view: &mut PageRenderer, inspected: &Inspection) {
    let Inspection { worker, pending_approvals, latest_handoff, events } = inspected;
    whole(view, worker, None);
    if let Some(snapshot) = latest_handoff {
        view.facts(&[("handoff", Style::Plain, snapshot.handoff_path.clone())]);
    }
    for asked in pending_approvals {
        view.page.end();
        let data = serde_json::to_value(asked).unwrap_or_default();
        match asked.kind.as_str() {
            "elicitation" => elicitation(&mut view.page, &lenient::read(&data)),
            _ => approval(&mut view.page, &lenient::read(&data), &lenient::read(&data)),
        }
    }
    if !events.is_empty() {
        view.page.end().word(Style::Dim, &format!("The last {} events", events.len())).end();
    }
    for event in events {
        let seen: SeenEvent<'_, AskedApproval<'_>> = SeenEvent::of(event);
        let request = seen.data.request_id.unwrap_or_default();
        if seen.is_question() && pending_approvals.iter().any(|asked| asked.request_id.as_str() == request) {
            view.page.word(Style::Attention, &format!("{request} asked, see above")).end();
            continue;
        }
        write_event(&mut view.page, worker.worker_id.as_str(), event);
    }
}
