//! Decisions beyond a single one: several at once, one that becomes a standing rule, and the expiry
//! of a question. `take_decision` checks and closes a question in one step, so each is decided
//! once.

use serde_json::{Value, json};
use subagent_protocol::api::DecidedBy;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, RuleId};
use subagent_protocol::state::{ElicitationAction, QuestionKind};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::approval::Approval;
use super::decision::{ElicitationReply, PermissionDecision};
use super::step::TransitionBuilder;
use super::worker::{Fact, LifecycleState, WorkerAction};

/// An input about questions of a worker, beside a single decision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QuestionInput {
    /// Decides several permission requests: all or none.
    DecideAll {
        /// The decisions by request.
        choices: Vec<(RequestId, PermissionDecision)>,
        /// Note of the owner.
        note: Option<String>,
    },
    /// Decides a permission request and adds a rule for the same decision in future.
    DecideAlways {
        /// The decided permission request.
        request_id: RequestId,
        /// The decision that becomes standing.
        choice: PermissionDecision,
        /// Note of the owner.
        note: Option<String>,
        /// The rule to add.
        rule: NewRule,
    },
    /// A question was not answered in time.
    Expired {
        /// Id of the expired question.
        request_id: RequestId,
        /// What the expiry does.
        expiry: Expiry,
    },
}

/// The effect of an expired question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Decides a permission request this way.
    Decide(PermissionDecision),
    /// Declines the expired elicitation.
    Decline,
    /// Cancels the turn that asked.
    Cancel,
}

/// A rule derived from a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewRule {
    /// Id of the new rule.
    pub rule_id: RuleId,
    /// Text of the rule, without its action.
    pub rule: String,
    /// Action of the rule, such as `allow`.
    pub action: &'static str,
    /// Whether it applies to all workers of the controller.
    pub for_controller: bool,
    /// The decision that it was derived from.
    pub request_id: RequestId,
    /// Time of that decision.
    pub created_at: Timestamp,
}

/// Facts of the inbox, beside the questions themselves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum InboxFact {
    /// The rule that makes a request ask.
    AskedFor {
        /// Id of the request.
        request_id: RequestId,
        /// The rule in the form of events.
        rule: Value,
    },
    /// A decision added this rule.
    RuleAdded(NewRule),
}

/// Reason of a cancel because a question of the turn was not answered in time.
pub(super) const EXPIRED: &str = "a question was not answered in time";

impl TransitionBuilder {
    pub(super) fn inbox(&mut self, input: QuestionInput) -> Result<()> {
        match input {
            QuestionInput::DecideAll { choices, note } => {
                choices.into_iter().try_for_each(|(request_id, choice)| {
                    self.decide_as(request_id, choice, note.clone(), DecidedBy::Owner, None)
                })
            }
            QuestionInput::DecideAlways { request_id, choice, note, rule } => {
                let standing = json!({
                    "ruleId": rule.rule_id, "rule": rule.rule, "action": rule.action,
                    "scope": if rule.for_controller { "controller" } else { "worker" },
                });
                self.decide_as(request_id, choice, note, DecidedBy::Owner, Some(standing))?;
                self.facts.push(Fact::Inbox(InboxFact::RuleAdded(rule)));
                Ok(())
            }
            QuestionInput::Expired { request_id, expiry } => self.expired(request_id, expiry),
        }
    }

    fn expired(&mut self, request_id: RequestId, expiry: Expiry) -> Result<()> {
        let asked = self.worker.approvals.get(&request_id);
        let kind = asked.map_or(QuestionKind::Permission, |asked| asked.kind);
        match (kind, expiry) {
            (QuestionKind::Permission, Expiry::Decide(choice)) => {
                self.decide_as(request_id, choice, None, DecidedBy::Deadline, None)
            }
            (_, Expiry::Cancel) if self.expires_with(&request_id) => Ok(()),
            (QuestionKind::Permission, Expiry::Decline | Expiry::Cancel) => {
                let note = Some(EXPIRED.to_owned());
                self.decide_as(request_id, PermissionDecision::cancelled(), note, DecidedBy::Deadline, None)
            }
            (QuestionKind::Elicitation, Expiry::Cancel) => {
                self.answer_as(request_id, nothing(ElicitationAction::Cancel), DecidedBy::Deadline)
            }
            (QuestionKind::Elicitation, Expiry::Decide(_) | Expiry::Decline) => {
                self.answer_as(request_id, nothing(ElicitationAction::Decline), DecidedBy::Deadline)
            }
        }
    }

    /// Cancels the open turn that asked, unless it is being canceled. The runtime answers the
    /// question with the cancel. An answer before the cancel could let the turn complete.
    fn expires_with(&mut self, request_id: &RequestId) -> bool {
        let asked = self.worker.approvals.get(request_id);
        let Some(turn) =
            asked.filter(|asked| asked.approval == Approval::Pending).and_then(|asked| asked.turn)
        else {
            return false;
        };
        let cancels = matches!(&self.worker.state, LifecycleState::Turn(open) if open.no == turn && open.cancel.is_none());
        if cancels {
            let reason = EXPIRED.to_owned();
            let error = Error::new(Code::ApprovalTimeout, EXPIRED);
            self.facts.push(Fact::TaskCause { error, turn: Some(turn) });
            if self.cancel_turn(reason.clone(), Some(request_id)) {
                self.actions.push(WorkerAction::Cancel { turn, reason });
            }
        }
        cancels
    }

    /// Decides a permission request of the agent or of a simulated turn.
    pub(super) fn decide_as(
        &mut self,
        request_id: RequestId,
        choice: PermissionDecision,
        note: Option<String>,
        by: DecidedBy,
        always: Option<Value>,
    ) -> Result<()> {
        if let LifecycleState::Local(local) = &self.worker.state
            && local.request_id == request_id
        {
            let local = local.clone();
            self.decide_local(&local, &choice, note, by);
            return Ok(());
        }
        let turn = self.take_decision(&request_id, QuestionKind::Permission, choice.option_id.as_deref())?;
        let mut data = decided(&request_id, &choice, note, by);
        if let Some(always) = always {
            data["always"] = always;
        }
        self.event(EventType::ApprovalDecided, data, turn);
        self.facts.push(Fact::ApprovalDecided {
            request_id: request_id.clone(),
            option_id: choice.option_id.clone(),
            content: None,
            by_cancel: false,
        });
        self.actions.push(WorkerAction::Answer { request_id, option_id: choice.option_id });
        Ok(())
    }
}

/// Returns the data of `approval.decided`.
pub(super) fn decided(
    request_id: &RequestId,
    choice: &PermissionDecision,
    note: Option<String>,
    by: DecidedBy,
) -> Value {
    json!({
        "requestId": request_id, "decision": choice.decision,
        "optionId": choice.option_id.as_deref().unwrap_or("cancelled"), "alias": choice.alias,
        "note": note, "by": by,
    })
}

fn nothing(action: ElicitationAction) -> ElicitationReply {
    ElicitationReply { action, fields: Vec::new(), content: None }
}
