//! The rules of a worker at work: they answer its permission requests, and look at calls that were made without asking.
//!
//! What the rules say is in `subagent_config::policy`; what follows is the core's. Here journal records become calls, and
//! verdicts become inputs of the core, taken in the transaction of the record itself: so a request has one decision, whoever
//! dies, and one that was asked without a daemon waits for the next.

mod chain;
mod evidence;
mod request;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use subagent_config::policy::{Action, Call, Judged, Kind, Node, Policy, Verdict, real_path};
use subagent_protocol::event::{ApprovalOption, ApprovalView, EventType, StoredEvent};
use subagent_protocol::policy::PolicySpec;
use subagent_protocol::record::{ApprovalRequested, Record, RecordType};
use subagent_protocol::start::ClientRules;
use subagent_protocol::tool_calls::{KINDS, is_over};
use subagent_protocol::{Result, surrogates};

use self::chain::compiled;
use self::request::{Request, call_id};
use crate::core::Input;
use crate::core::decision::Choice;
use crate::core::inbox::InboxFact;
use crate::store::owner_rules::{self, OfChain};
use crate::store::{Connection, RowId, decided};

pub(super) use self::chain::{check, check_spec};

/// Calls of a turn that are remembered. With more, calls that are over are forgotten first, the oldest before the others.
const MAX_CALLS: usize = 1000;
/// So much is told of what was judged.
const MOST_SUBJECT_CHARS: usize = 1000;

/// The rules of a worker that decides nothing by itself.
///
/// # Errors
/// `INVALID_ARGUMENT` for stored rules that cannot be read.
fn of_worker(spec: Option<&PolicySpec>, added: &OfChain, workspace: &str, cwd: &Path) -> Result<Policy> {
    let none = || PolicySpec::own(workspace.into(), None, Vec::new());
    compiled(&spec.cloned().unwrap_or_else(none), added, cwd)
}

/// The same, with what decisions became by now.
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

/// What decisions about a worker and about those above it became.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) fn added(connection: &Connection, worker: RowId, spec: Option<&PolicySpec>) -> Result<OfChain> {
    let above = spec.iter().flat_map(|spec| &spec.ancestors).map(|node| &node.worker_id);
    owner_rules::of_chain(connection, worker, above)
}

/// The call that a permission request is for.
pub(super) fn call_of(asked: &ApprovalRequested) -> (Call, Value) {
    let request = Request::of(asked);
    (request.call(Call::default()), request.params)
}

/// The same as the agent tells of it.
pub(super) fn told_of(asked: &ApprovalRequested) -> Value {
    Request::of(asked).told()
}

/// The choice of a request that says this and nothing more, if one does.
pub(super) fn choice_of(asked: &ApprovalRequested, action: Action) -> Option<Choice> {
    let offers = Request::of(asked).params["options"].as_array().is_some_and(|options| !options.is_empty());
    let view = ApprovalView::of_record(asked);
    let option = option(&view.options, action).filter(|_| offers)?;
    Some(Choice {
        option_id: Some(option.id.clone()),
        alias: Some(option.alias.clone()),
        decision: action.as_str().to_owned(),
    })
}

/// What an agent has told of a call in this turn.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// Calls of the turn have ascending numbers.
    number: u64,
    call: Call,
    /// What the update said that the call began with.
    begun: Option<Call>,
    /// Whether it was reported as completed or failed.
    over: bool,
    /// Whether it was asked for: then somebody has decided.
    asked: bool,
    /// Whether an update speaks of it, or of the call that its request is for.
    told: bool,
    /// Whether an update told the output of a command.
    ran: bool,
    judged: bool,
}

impl Seen {
    /// Whether an update begins another call under the id of one that is over.
    fn is_reused_by(&self, update: &Value, over: bool) -> bool {
        let begins = update["sessionUpdate"] == "tool_call";
        self.over && begins && (!over || self.begun.as_ref() != Some(&Call::of(update)))
    }

    fn next(&self) -> Self {
        Self { number: self.number, ..Self::default() }
    }
}

/// The rules of a worker, and what they have to know of the open turn. A clone costs nothing.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    policy: Arc<Policy>,
    /// By session, if it is not the worker's own, and id.
    calls: Arc<HashMap<(Option<String>, String), Seen>>,
    /// The number of the call that was seen first last.
    last_number: u64,
    /// Whether a call was forgotten that somebody was asked for and that is not over.
    forgot_asked: bool,
    /// For which rule the last request is asked, if it is.
    asked_for: Option<InboxFact>,
}

impl Watch {
    /// Of a worker with this stored policy, and with rules that decisions became; none if there are no rules at all.
    pub(super) fn of(
        spec: Option<&PolicySpec>,
        added: &OfChain,
        workspace: &str,
        cwd: &Path,
    ) -> Option<Self> {
        if spec.is_none() && added.own.is_empty() {
            return None;
        }
        let policy = match of_worker(spec, added, workspace, cwd) {
            Ok(policy) => policy,
            // It was checked when it was stored, maybe by a newer version: everything is asked.
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

    /// The same calls under these rules.
    pub(super) fn with_rules_of(self, rules: Self) -> Self {
        Self { policy: rules.policy, ..self }
    }

    /// For which rule the request is asked that was seen last.
    pub(super) fn take_asked_for(&mut self) -> Option<InboxFact> {
        self.asked_for.take()
    }

    /// What the rules say of a request that waits.
    pub(super) fn judge(&self, asked: &str) -> Option<Input> {
        let asked: ApprovalRequested = serde_json::from_str(asked).ok()?;
        let request = Request::of(&asked);
        let verdict = self.verdict_on(&asked, &self.call(&asked, &request));
        decision(asked, &request.params, &verdict, &self.policy)
    }

    /// What is known of the call that a request is for: what was said of it in this turn, and what the request says.
    fn call(&self, asked: &ApprovalRequested, request: &Request) -> Call {
        let seen = request.ids().find_map(|id| self.calls.get(&(asked.child.session_id.clone(), id)));
        request.call(seen.map(|seen| seen.call.clone()).unwrap_or_default())
    }

    fn verdict_on(&self, asked: &ApprovalRequested, call: &Call) -> Verdict {
        match asked.client_call {
            Some(_) => self.policy.decide_of_client(call, &real_path),
            None => self.policy.decide(call, &real_path),
        }
    }

    /// What of the agent's requests to its client these rules can say anything about.
    pub(super) fn client_rules(&self) -> ClientRules {
        let policy = &self.policy;
        // What a definition does not list is denied without a rule.
        let is_about = |kind| policy.is_about(kind) || policy.leaves_out(kind);
        let restricts = |kind| policy.restricts(kind) || policy.leaves_out(kind);
        ClientRules {
            read: is_about(Kind::Read),
            edit: is_about(Kind::Edit),
            // The shell opens files as well.
            execute: is_about(Kind::Execute) || restricts(Kind::Edit) || restricts(Kind::Read),
            guarded: policy.places.protected(&real_path),
        }
    }

    /// What the rules make of a record.
    pub(super) fn see(&mut self, record: &Record<'_>) -> Option<Input> {
        match record.t {
            RecordType::ApprovalRequested => self.asked(record),
            RecordType::Update | RecordType::ChildUpdate
                if record.k.as_deref().is_some_and(|kind| KINDS.contains(&kind)) =>
            {
                self.told(record.t, record.turn, record.b?.get())
            }
            RecordType::TurnEnd if !self.calls.is_empty() => {
                self.calls = Arc::default();
                self.forgot_asked = false;
                None
            }
            _ => None,
        }
    }

    /// Takes in what a daemon before this one has seen of the open turn, and answered.
    pub(super) fn recall(&mut self, record: RecordType, body: &str) {
        match record {
            RecordType::ApprovalRequested => {
                let Ok(asked) = serde_json::from_str::<ApprovalRequested>(body) else { return };
                self.is_asked(&asked, &Request::of(&asked));
            }
            _ => drop(self.told(record, None, body)),
        }
    }

    fn is_asked(&mut self, asked: &ApprovalRequested, request: &Request) {
        // No agent knows the id of what the client asks for.
        let told = asked.client_call.is_some() || request.ids().count() > 1;
        for id in request.ids() {
            let seen = self.seen((asked.child.session_id.clone(), id));
            if seen.over {
                // The id of a call that is over stands for the next one.
                *seen = seen.next();
            }
            (seen.asked, seen.told) = (true, seen.told || told);
        }
    }

    fn asked(&mut self, record: &Record<'_>) -> Option<Input> {
        let asked: ApprovalRequested = record.body().ok()?;
        let request = Request::of(&asked);
        let verdict = self.verdict_on(&asked, &self.call(&asked, &request));
        self.is_asked(&asked, &request);
        let request_id = asked.request_id.clone();
        let decided = decision(asked, &request.params, &verdict, &self.policy);
        if decided.is_none() {
            let rule = verdict.decisive().map(|part| rule(part, &self.policy));
            self.asked_for = rule.map(|rule| InboxFact::AskedFor { request_id, rule });
        }
        decided
    }

    fn told(&mut self, record: RecordType, turn: Option<u64>, body: &str) -> Option<Input> {
        let body: Value = surrogates::parse(body).ok()?;
        let update = &body["update"];
        let id = call_id(update)?;
        let session = body["sessionId"].as_str().filter(|_| record == RecordType::ChildUpdate);
        let policy = self.policy.clone();
        let completed = update["status"] == "completed";
        let over = update["status"].as_str().is_some_and(is_over);
        let seen = self.seen((session.map(str::to_owned), id.clone()));
        if seen.is_reused_by(update, over) {
            *seen = seen.next();
        }
        if seen.begun.is_none() {
            seen.begun = Some(Call::of(update));
        }
        seen.told = true;
        seen.over |= over;
        seen.ran |= evidence::tells_output(update);
        seen.call.learn(update);
        // Not before: many agents call a call `in_progress` and ask then.
        if !completed || !seen.call.tells_something() || seen.asked || seen.judged {
            return None;
        }
        seen.judged = true;
        let (call, ran) = (seen.call.clone(), seen.ran);
        // A request of an id that no update speaks of may have been for this call.
        let maybe_asked = self.forgot_asked || self.calls.values().any(|seen| seen.asked && !seen.told);
        let evidence = evidence::of(update, ran, maybe_asked)?;
        let verdict = policy.decide(&call.as_told(), &real_path);
        // What was only not approved beforehand is denied to who asks; of who does not ask it is no violation.
        let by_rule = |part: &&Judged| part.by.as_ref().is_some_and(|by| by.action == Action::Deny);
        let denied = verdict.judged.iter().filter(|part| part.action == Action::Deny).find(by_rule)?;
        let mut call = rule(denied, &policy);
        call["toolCallId"] = id.into();
        call["evidence"] = evidence.into();
        Some(Input::Violation { turn, call })
    }

    fn seen(&mut self, key: (Option<String>, String)) -> &mut Seen {
        let calls = Arc::make_mut(&mut self.calls);
        if calls.len() >= MAX_CALLS && !calls.contains_key(&key) {
            let oldest = calls.iter().min_by_key(|(_, seen)| (!seen.over, seen.number));
            if let Some(forgotten) = oldest.map(|(key, _)| key.clone()).and_then(|key| calls.remove(&key)) {
                self.forgot_asked |= forgotten.asked && !forgotten.over;
            }
        }
        calls.entry(key).or_insert_with(|| {
            self.last_number += 1;
            Seen { number: self.last_number, ..Seen::default() }
        })
    }
}

/// Whether this event of a worker is a permission request that a rule has decided, so no answer is needed.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) fn is_decided_by_rule(
    connection: &Connection,
    worker: RowId,
    event: &StoredEvent,
) -> Result<bool> {
    if event.event_type != EventType::ApprovalRequested {
        return Ok(false);
    }
    match event.data()["requestId"].as_str() {
        Some(request) => decided::by_rule(connection, worker, request),
        None => Ok(false),
    }
}

/// The option that says this and nothing more; none if the owner is to be asked.
fn option(options: &[ApprovalOption], action: Action) -> Option<&ApprovalOption> {
    let kind = match action {
        Action::Allow => "allow_once",
        Action::Deny => "reject_once",
        Action::Ask => return None,
    };
    options.iter().find(|option| option.kind.as_deref() == Some(kind))
}

/// The decision that follows from what the rules say; none if the owner is to be asked.
fn decision(asked: ApprovalRequested, params: &Value, verdict: &Verdict, policy: &Policy) -> Option<Input> {
    // Without any, the words of people would be made up.
    let offers = params["options"].as_array().is_some_and(|options| !options.is_empty());
    let options = if offers { ApprovalView::of_record(&asked).options } else { Vec::new() };
    let choice = match option(&options, verdict.action) {
        Some(option) => Choice {
            option_id: Some(option.id.clone()),
            alias: Some(option.alias.clone()),
            decision: verdict.action.as_str().to_owned(),
        },
        // Nobody is asked, whatever the agent offers: of what is denied also below one that never asks.
        None if policy.chain.last().is_some_and(Node::never_asks)
            || (verdict.action == Action::Deny && policy.chain.iter().any(Node::never_asks)) =>
        {
            Choice::cancelled()
        }
        None => return None,
    };
    let rule = rule(verdict.decisive()?, policy);
    Some(Input::DecideByRule { request_id: asked.request_id, choice, rule })
}

/// The rule that decided, as events tell of it.
fn rule(decisive: &Judged, policy: &Policy) -> Value {
    let Judged { kind, subject, action, by, note } = decisive;
    let subject: Option<String> =
        subject.as_ref().map(|text| text.chars().take(MOST_SUBJECT_CHARS).collect());
    let mut told = json!({
        "action": action.as_str(), "kind": kind.as_str(), "subject": subject,
        "rule": by.as_ref().map(|by| by.rule.as_str()),
    });
    if let Some(by) = by {
        told["layer"] = by.layer.as_str().into();
        if let Some(source) = &by.source {
            told["source"] = source.as_str().into();
        }
        if let Some(at) = by.at {
            told["line"] = at.line.into();
        }
        // It is of one above the worker.
        if by.depth + 1 < policy.chain.len() {
            told["path"] = policy.chain[..=by.depth].iter().map(|node| node.name.as_str()).collect();
        }
    }
    if let Some(note) = note {
        told["note"] = note.as_str().into();
    }
    told
}

#[cfg(test)]
mod tests;
