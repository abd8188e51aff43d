//! Applies a worker's policy to its permission requests, and detects denied calls that were made
//! without a request. `subagent_config::policy` has the rules. Verdicts become core inputs in the
//! transaction of the record, so each request has one decision even if the daemon dies.

mod chain;
mod evidence;
mod request;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use subagent_config::policy::{
    CallVerdict, Judged, Node, Policy, RuleAction, ToolCallDescription, ToolKind, real_path,
};
use subagent_core::model::{InboxFact, PermissionDecision, WorkerInput};
use subagent_protocol::data::questions::{DecidingRule, PolicyViolated};
use subagent_protocol::event::{ApprovalOption, ApprovalView, EventType, StoredEvent};
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::policy::PolicySpec;
use subagent_protocol::record::{ApprovalRequested, JournalRecord, RecordType};
use subagent_protocol::start::ClientRules;
use subagent_protocol::tool_calls::{KINDS, is_over};
use subagent_protocol::tool_content::ToolCallReport;
use subagent_protocol::{Result, surrogates};

use crate::store::questions::decided;
use crate::store::questions::owner_rules::{self, RulesOfChain};
use crate::store::{Connection, RowId};
use chain::compiled;
use request::{PermissionRequest, call_id};

pub(super) use chain::{check, check_spec};

/// Maximum number of remembered calls of a turn. Completed calls are forgotten first, then the
/// oldest.
const MAX_CALLS: usize = 1000;
/// Maximum length of a judged subject in an event, in characters.
const MAX_SUBJECT_CHARS: usize = 1000;

/// Returns the policy of a worker, given the owner rules that apply to it.
///
/// # Errors
/// `INVALID_ARGUMENT` if the stored policy is invalid.
fn of_worker(spec: Option<&PolicySpec>, added: &RulesOfChain, workspace: &str, cwd: &Path) -> Result<Policy> {
    let none = || PolicySpec::own(workspace.into(), None, Vec::new());
    compiled(&spec.cloned().unwrap_or_else(none), added, cwd)
}

/// Reads the owner rules of a worker and returns its policy.
///
/// # Errors
/// As [`of_worker`], and `STORAGE_ERROR`.
pub(super) fn read(
    connection: &Connection,
    worker: RowId,
    spec: Option<&PolicySpec>,
    cwd: &Path,
) -> Result<Policy> {
    let added = added(connection, worker, spec)?;
    of_worker(spec, &added, &owner_rules::workspace_of(connection, worker)?, cwd)
}

/// Returns the owner rules of a worker and of those above it.
pub(super) fn added(
    connection: &Connection,
    worker: RowId,
    spec: Option<&PolicySpec>,
) -> Result<RulesOfChain> {
    let above = spec.iter().flat_map(|spec| &spec.ancestors).map(|node| &node.worker_id);
    owner_rules::of_chain(connection, worker, above)
}

/// Returns the call of a permission request, and whether the request has one.
pub(super) fn call_of(asked: &ApprovalRequested) -> (ToolCallDescription, bool) {
    let request = PermissionRequest::of(asked);
    (request.call(ToolCallDescription::default()), request.tool_call.is_some())
}

/// Returns the tool call of a permission request as the agent reported it.
pub(super) fn reported_call(asked: &ApprovalRequested) -> Value {
    PermissionRequest::of(asked).reported()
}

/// Returns the choice that expresses exactly this action, if the request offers it.
pub(super) fn choice_of(asked: &ApprovalRequested, action: RuleAction) -> Option<PermissionDecision> {
    let view = ApprovalView::of_record(asked);
    let option = option(&view.options, action).filter(|_| PermissionRequest::of(asked).offers)?;
    Some(PermissionDecision {
        option_id: Some(option.id.clone()),
        alias: Some(option.alias.clone()),
        decision: action.as_str().to_owned(),
    })
}

/// The body of a record of an update.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateRecord {
    update: Value,
    session_id: Lenient<String>,
}

/// The data of an event about a question.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AboutQuestion<'a> {
    #[serde(borrow)]
    request_id: Lenient<&'a str>,
}

/// What the agent reported about a call in this turn.
#[derive(Debug, Clone, Default)]
struct ReportedCall {
    /// Ascending number of the call in the turn.
    number: u64,
    call: ToolCallDescription,
    /// The call as its first update reported it.
    begun: Option<ToolCallDescription>,
    /// Whether the call was reported as completed or failed.
    over: bool,
    /// Whether permission was requested for the call.
    asked: bool,
    /// Whether an update reported the call, or the call that its request is for.
    reported: bool,
    /// Whether an update contained output of a command.
    ran: bool,
    judged: bool,
}

impl ReportedCall {
    /// Returns whether an update begins another call with the id of a completed one.
    fn is_reused_by(&self, update: &Value, report: &ToolCallReport<'_>, over: bool) -> bool {
        let begins = report.session_update.0 == Some("tool_call");
        self.over && begins && (!over || self.begun.as_ref() != Some(&ToolCallDescription::of(update)))
    }

    fn next(&self) -> Self {
        Self { number: self.number, ..Self::default() }
    }
}

/// The policy of a worker and the calls of its open turn. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct PolicyTracker {
    policy: Arc<Policy>,
    /// Keyed by session, if it is not the worker's own, and call id.
    calls: Arc<HashMap<(Option<String>, String), ReportedCall>>,
    /// Number of the newest call.
    last_number: u64,
    /// Whether an open call with a permission request was forgotten.
    forgot_asked: bool,
    /// The rule that made the last request ask, if one did.
    asked_for: Option<InboxFact>,
}

impl PolicyTracker {
    /// Returns the watch of a worker with this policy and these owner rules. `None` without any
    /// rules.
    pub(super) fn of(
        spec: Option<&PolicySpec>,
        added: &RulesOfChain,
        workspace: &str,
        cwd: &Path,
    ) -> Option<Self> {
        if spec.is_none() && added.own.is_empty() {
            return None;
        }
        let policy = match of_worker(spec, added, workspace, cwd) {
            Ok(policy) => policy,
            // The policy was valid when it was stored, perhaps by a newer version. The owner is
            // asked about everything.
            Err(error) => {
                tracing::error!(%error, "the stored rules of a worker cannot be read; its requests wait for the owner");
                return None;
            }
        };
        Some(Self {
            policy: Arc::new(policy),
            calls: Arc::default(),
            last_number: 0,
            forgot_asked: false,
            asked_for: None,
        })
    }

    /// Returns the same calls under another policy.
    pub(super) fn with_rules_of(self, rules: Self) -> Self {
        Self { policy: rules.policy, ..self }
    }

    /// Takes the rule that made the last request ask.
    pub(super) fn take_asked_for(&mut self) -> Option<InboxFact> {
        self.asked_for.take()
    }

    /// Returns the policy's decision about a pending request, or `None` if the owner is asked.
    pub(super) fn judge(&self, asked: &str) -> Option<WorkerInput> {
        let asked: ApprovalRequested = serde_json::from_str(asked).ok()?;
        let request = PermissionRequest::of(&asked);
        let verdict = self.verdict_on(&asked, &self.call(&asked, &request));
        decision(asked, request.offers, &verdict, &self.policy)
    }

    /// Returns what is known of the call of a request, from updates of this turn and the request
    /// itself.
    fn call(&self, asked: &ApprovalRequested, request: &PermissionRequest) -> ToolCallDescription {
        let seen = request.ids().find_map(|id| self.calls.get(&(asked.child.session_id.clone(), id)));
        request.call(seen.map(|seen| seen.call.clone()).unwrap_or_default())
    }

    fn verdict_on(&self, asked: &ApprovalRequested, call: &ToolCallDescription) -> CallVerdict {
        match asked.client_call {
            Some(_) => self.policy.decide_of_client(call, &real_path),
            None => self.policy.decide(call, &real_path),
        }
    }

    /// Returns which requests of an agent to its client this policy can affect.
    pub(super) fn client_rules(&self) -> ClientRules {
        let policy = &self.policy;
        // Tools that a definition does not list are denied without a rule.
        let is_about = |kind| policy.is_about(kind) || policy.leaves_out(kind);
        let restricts = |kind| policy.restricts(kind) || policy.leaves_out(kind);
        ClientRules {
            read: is_about(ToolKind::Read),
            edit: is_about(ToolKind::Edit),
            // A shell can open files as well.
            execute: is_about(ToolKind::Execute) || restricts(ToolKind::Edit) || restricts(ToolKind::Read),
            guarded: policy.places.protected(&real_path),
        }
    }

    /// Returns the input that follows from a record under this policy.
    pub(super) fn see(&mut self, record: &JournalRecord<'_>) -> Option<WorkerInput> {
        match record.t {
            RecordType::ApprovalRequested => self.asked(record),
            RecordType::Update | RecordType::ChildUpdate
                if record.k.as_deref().is_some_and(|kind| KINDS.contains(&kind)) =>
            {
                self.tool_call_update(record.t, record.turn, record.b?.get())
            }
            RecordType::TurnEnd if !self.calls.is_empty() => {
                self.calls = Arc::default();
                self.forgot_asked = false;
                None
            }
            _ => None,
        }
    }

    /// Restores a record of the open turn that an earlier daemon handled.
    pub(super) fn recall(&mut self, record: RecordType, body: &str) {
        match record {
            RecordType::ApprovalRequested => {
                let Ok(asked) = serde_json::from_str::<ApprovalRequested>(body) else { return };
                self.is_asked(&asked, &PermissionRequest::of(&asked));
            }
            _ => drop(self.tool_call_update(record, None, body)),
        }
    }

    fn is_asked(&mut self, asked: &ApprovalRequested, request: &PermissionRequest) {
        // The agent does not know the ids of client methods.
        let reported = asked.client_call.is_some() || request.ids().count() > 1;
        for id in request.ids() {
            let seen = self.seen((asked.child.session_id.clone(), id));
            if seen.over {
                // The id is reused for another call.
                *seen = seen.next();
            }
            (seen.asked, seen.reported) = (true, seen.reported || reported);
        }
    }

    fn asked(&mut self, record: &JournalRecord<'_>) -> Option<WorkerInput> {
        let asked: ApprovalRequested = record.body().ok()?;
        let request = PermissionRequest::of(&asked);
        let verdict = self.verdict_on(&asked, &self.call(&asked, &request));
        self.is_asked(&asked, &request);
        let request_id = asked.request_id.clone();
        let decided = decision(asked, request.offers, &verdict, &self.policy);
        if decided.is_none() {
            let rule = verdict.decisive().map(|part| rule(part, &self.policy));
            self.asked_for = rule.map(|rule| InboxFact::AskedFor { request_id, rule });
        }
        decided
    }

    fn tool_call_update(&mut self, record: RecordType, turn: Option<u64>, body: &str) -> Option<WorkerInput> {
        let UpdateRecord { update, session_id } = lenient::take(surrogates::parse(body).ok()?);
        let (update, report): (&Value, ToolCallReport<'_>) = (&update, lenient::read(&update));
        let id = call_id(&report)?;
        let session = session_id.0.filter(|_| record == RecordType::ChildUpdate);
        let policy = self.policy.clone();
        let completed = report.status.0 == Some("completed");
        let over = report.status.0.is_some_and(is_over);
        let seen = self.seen((session, id.clone()));
        if seen.is_reused_by(update, &report, over) {
            *seen = seen.next();
        }
        if seen.begun.is_none() {
            seen.begun = Some(ToolCallDescription::of(update));
        }
        seen.reported = true;
        seen.over |= over;
        seen.ran |= evidence::has_output(update);
        seen.call.learn(update);
        // Checks only completed calls: many agents report `in_progress` before they ask.
        if !completed || !seen.call.has_details() || seen.asked || seen.judged {
            return None;
        }
        seen.judged = true;
        let (call, ran) = (seen.call.clone(), seen.ran);
        // A request without matching updates may have been for this call.
        let maybe_asked = self.forgot_asked || self.calls.values().any(|seen| seen.asked && !seen.reported);
        let evidence = evidence::of(update, &report, ran, maybe_asked)?;
        let verdict = policy.decide(&call.as_reported(), &real_path);
        // A call that was only not pre-approved is denied if the agent asks, and is no violation if
        // it did not ask.
        let by_rule = |part: &&Judged| part.by.as_ref().is_some_and(|by| by.action == RuleAction::Deny);
        let denied = verdict.judged.iter().filter(|part| part.action == RuleAction::Deny).find(by_rule)?;
        let call = PolicyViolated { tool_call_id: id, evidence, decided: rule(denied, &policy) };
        Some(WorkerInput::Violation { turn, call })
    }

    fn seen(&mut self, key: (Option<String>, String)) -> &mut ReportedCall {
        let calls = Arc::make_mut(&mut self.calls);
        if calls.len() >= MAX_CALLS && !calls.contains_key(&key) {
            let oldest = calls.iter().min_by_key(|(_, seen)| (!seen.over, seen.number));
            if let Some(forgotten) = oldest.map(|(key, _)| key.clone()).and_then(|key| calls.remove(&key)) {
                self.forgot_asked |= forgotten.asked && !forgotten.over;
            }
        }
        calls.entry(key).or_insert_with(|| {
            self.last_number += 1;
            ReportedCall { number: self.last_number, ..ReportedCall::default() }
        })
    }
}

/// Returns whether this event is a permission request that a rule decided, so that no answer is
/// needed.
pub(super) fn is_decided_by_rule(
    connection: &Connection,
    worker: RowId,
    event: &StoredEvent,
) -> Result<bool> {
    if event.event_type != EventType::ApprovalRequested {
        return Ok(false);
    }
    match lenient::read::<AboutQuestion<'_>>(&event.data()).request_id.0 {
        Some(request) => decided::by_rule(connection, worker, request),
        None => Ok(false),
    }
}

/// Returns the option that expresses exactly this action, or `None` if the owner is asked.
fn option(options: &[ApprovalOption], action: RuleAction) -> Option<&ApprovalOption> {
    let kind = match action {
        RuleAction::Allow => "allow_once",
        RuleAction::Deny => "reject_once",
        RuleAction::Ask => return None,
    };
    options.iter().find(|option| option.kind.as_deref() == Some(kind))
}

/// Returns the decision that follows from a verdict, or `None` if the owner is asked.
fn decision(
    asked: ApprovalRequested,
    offers: bool,
    verdict: &CallVerdict,
    policy: &Policy,
) -> Option<WorkerInput> {
    let options = if offers { ApprovalView::of_record(&asked).options } else { Vec::new() };
    let choice = match option(&options, verdict.action) {
        Some(option) => PermissionDecision {
            option_id: Some(option.id.clone()),
            alias: Some(option.alias.clone()),
            decision: verdict.action.as_str().to_owned(),
        },
        // `never ask` decides even without a matching option. For a denied call it also applies if
        // a worker above never asks.
        None if policy.chain.last().is_some_and(Node::never_asks)
            || (verdict.action == RuleAction::Deny && policy.chain.iter().any(Node::never_asks)) =>
        {
            PermissionDecision::cancelled()
        }
        None => return None,
    };
    let rule = rule(verdict.decisive()?, policy);
    Some(WorkerInput::DecideByRule { request_id: asked.request_id, choice, rule })
}

/// Returns the deciding rule in the form of events.
fn rule(decisive: &Judged, policy: &Policy) -> DecidingRule {
    let Judged { kind, subject, action, by, note } = decisive;
    let by = by.as_ref();
    // The rule belongs to a worker above this one.
    let above = by.filter(|by| by.depth + 1 < policy.chain.len());
    DecidingRule {
        action: action.as_str().to_owned(),
        kind: kind.as_str().to_owned(),
        subject: subject.as_ref().map(|text| text.chars().take(MAX_SUBJECT_CHARS).collect()),
        rule: by.map(|by| by.rule.clone()),
        layer: by.map(|by| by.layer.as_str().to_owned()),
        source: by.and_then(|by| by.source.clone()),
        line: by.and_then(|by| by.at).map(|at| at.line),
        path: above.map(|by| policy.chain[..=by.depth].iter().map(|node| node.name.clone()).collect()),
        note: note.clone(),
    }
}

#[cfg(test)]
mod tests;
