//! Standing rules of the owner that were derived from decisions ("always allow"): deriving, listing
//! and removing them.

use std::path::Path;

use subagent_config::policy::{MAX_RULES, Rule, RuleAction, RuleTarget, real_path};
use subagent_core::model::{NewRule, PermissionDecision};
use subagent_protocol::api::{OwnerRule, OwnerRules, RuleScope};
use subagent_protocol::ids::RuleId;
use subagent_protocol::policy::PolicyRule;
use subagent_protocol::record::ApprovalRequested;
use subagent_protocol::state::Carrier;
use subagent_protocol::{Code, Error, Result};

use crate::store::questions::{ApprovalRow, owner_rules};
use crate::store::{Connection, Durability, WorkerRow, controllers, requests};
use crate::supervisor::start::spec;
use crate::supervisor::{ApiCaller, Supervisor, entropy, policy, views};

/// Filter for listing owner rules. All given fields must match.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleFilter {
    /// Selects the rules that apply to this worker.
    pub worker: Option<String>,
    /// Selects the rules of this controller, including those for single workers.
    pub controller_id: Option<String>,
}

/// Derives a rule from a decision about this request. Returns its view and its row.
///
/// # Errors
/// `RULE_NOT_DERIVABLE{requestId,reason}`: no rule says exactly this.
pub(crate) async fn derive(
    supervisor: &Supervisor,
    row: &WorkerRow,
    asked: &ApprovalRow,
    choice: &PermissionDecision,
    scope: RuleScope,
) -> Result<(OwnerRule, NewRule)> {
    let rule_id = RuleId::from_random(entropy::random()?);
    let refused = {
        let request_id = asked.request_id.clone();
        move |reason: String| {
            let message = format!("the decision cannot become a rule: {reason}; nothing was decided");
            Error::new(Code::RuleNotDerivable, message)
                .with("requestId", request_id.as_str())
                .with("reason", reason)
                .recommend("decide it without --always; rules can be given to `subagent worker start` with --allow and --deny")
        }
    };
    let action = action(asked, choice).map_err(&refused)?;
    let (worker, asked_by) = (row.clone(), asked.clone());
    let for_controller = scope == RuleScope::Controller;
    // In a read of the store, because matching rules may access the file system.
    let derived = supervisor.shared.store.read(move |connection| {
        rule(connection, &worker, &asked_by, action, for_controller)?.map_err(refused)
    });
    let rule = derived.await?;
    let new = NewRule {
        rule_id: rule_id.clone(),
        rule: rule.text(),
        action: rule.action.as_str(),
        for_controller,
        request_id: asked.request_id.clone(),
        created_at: entropy::now(),
    };
    let owner_rule = OwnerRule {
        rule_id,
        rule: PolicyRule { rule: new.rule.clone(), action: new.action.to_owned(), line: None, column: None },
        scope,
        controller_id: row.controller_id.clone(),
        worker_id: (scope == RuleScope::Worker).then(|| row.worker_id.clone()),
        request_id: asked.request_id.clone(),
        created_at: new.created_at,
    };
    Ok((owner_rule, new))
}

/// Returns the text of the rule that always allows this request, or `None` if no rule expresses
/// exactly this request.
pub(crate) async fn allowing_rule(
    supervisor: &Supervisor,
    row: &WorkerRow,
    asked: &ApprovalRow,
) -> Result<Option<String>> {
    if asked.carrier == Carrier::Local {
        return Ok(None);
    }
    let (worker, asked) = (row.clone(), asked.clone());
    let read = supervisor
        .shared
        .store
        .read(move |connection| rule(connection, &worker, &asked, RuleAction::Allow, false));
    Ok(read.await?.ok().map(|rule| rule.text()))
}

/// Lists owner rules in the order of their creation.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn owner_rules(supervisor: &Supervisor, filter: RuleFilter) -> Result<OwnerRules> {
    let worker = match &filter.worker {
        Some(worker) => Some(supervisor.row(worker).await?.id),
        None => None,
    };
    let read = supervisor.shared.store.read(move |connection| match worker {
        Some(worker) => owner_rules::of_worker(connection, worker),
        None => owner_rules::all(connection),
    });
    let mut items = read.await?;
    if let Some(wanted) = &filter.controller_id {
        items.retain(|rule| rule.controller_id.as_str() == wanted);
    }
    Ok(OwnerRules { count: items.len(), items })
}

/// Removes an owner rule. Its workers ask again from then on.
///
/// # Errors
/// `RULE_NOT_FOUND{ruleId}`, `INVALID_CONTROLLER_HANDLE`, `STORAGE_ERROR`.
pub(crate) async fn remove_owner_rule(
    supervisor: &Supervisor,
    caller: ApiCaller,
    rule_id: &str,
) -> Result<OwnerRule> {
    let (owner, key) = supervisor.guarded(caller, &format!("remove rule {rule_id}"), &())?;
    let (asked, now) = (rule_id.to_owned(), entropy::now());
    let removed = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        requests::once(tx, key.as_ref(), now, |tx| {
            let Some((rule, controller)) = owner_rules::get(tx.connection(), &asked)? else {
                return Err(Error::new(Code::RuleNotFound, format!("there is no rule {asked}"))
                    .with("ruleId", asked.as_str())
                    .recommend("`subagent policy rules list` shows them"));
            };
            controllers::check_owner(tx.connection(), &owner, &controller)?;
            owner_rules::delete(tx, &asked)?;
            Ok(rule)
        })
    });
    let (rule, _) = removed.await?;
    supervisor.shared.changes.rules.send_modify(|changes| *changes += 1);
    Ok(rule)
}

/// Returns the action of the chosen option.
fn action(asked: &ApprovalRow, choice: &PermissionDecision) -> Result<RuleAction, String> {
    if asked.carrier == Carrier::Local {
        return Err("the request is only simulated".to_owned());
    }
    let options = views::question::approval_view(asked).options;
    let chosen = options.iter().find(|option| Some(&option.id) == choice.option_id.as_ref());
    match chosen.and_then(|option| option.kind.as_deref()) {
        Some("allow_once" | "allow_always") => Ok(RuleAction::Allow),
        Some("reject_once" | "reject_always") => Ok(RuleAction::Deny),
        _ => Err("the chosen option neither allows nor denies".to_owned()),
    }
}

/// Returns the rule for exactly this call, given the policy of the worker.
fn rule(
    connection: &Connection,
    worker: &WorkerRow,
    asked: &ApprovalRow,
    action: RuleAction,
    for_controller: bool,
) -> Result<Result<Rule, String>> {
    let rules = spec::stored(worker).and_then(|spec| spec.policy);
    let added = owner_rules::of_worker(connection, worker.id)?;
    if added.len() >= MAX_RULES {
        return Ok(Err(format!("there are {} rules already; remove some", added.len())));
    }
    let Ok(record) = serde_json::from_str::<ApprovalRequested>(&asked.asked) else {
        return Ok(Err("the request cannot be read".to_owned()));
    };
    let policy = policy::read(connection, worker.id, rules.as_ref(), Path::new(&worker.cwd))?;
    let (call, is_said) = policy::call_of(&record);
    if !is_said && call == Default::default() {
        return Ok(Err("the agent does not say what the request is about".to_owned()));
    }
    let to = if for_controller { RuleTarget::All } else { RuleTarget::Itself };
    Ok(policy.exact(&call, action, to, &real_path))
}
