//! Decisions in the inbox beyond a single one: several at once, one that becomes a rule, and one that nobody made in time.
//!
//! Whatever decides, a question is decided once: `take_decision` looks, and takes it, in the same step.

use serde_json::{Value, json};
use subagent_protocol::api::DecidedBy;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, RuleId};
use subagent_protocol::state::{ElicitationAction, QuestionKind};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::approval::Approval;
use super::decision::{Choice, Reply};
use super::step::Next;
use super::worker::{Action, Fact, State};

/// What can happen to the questions of a worker, beside a single decision.
#[derive(Debug, Clone, PartialEq)]
pub enum InboxInput {
    /// Somebody decides several permission requests: all of them or none.
    DecideAll {
        /// Which, and what.
        choices: Vec<(RequestId, Choice)>,
        /// A note.
        note: Option<String>,
    },
    /// Somebody decides a permission request, and the same from now on.
    DecideAlways {
        /// Which.
        request_id: RequestId,
        /// What.
        choice: Choice,
        /// A note.
        note: Option<String>,
        /// The rule that it becomes.
        rule: NewRule,
    },
    /// Nobody has decided in time.
    Expired {
        /// Which question.
        request_id: RequestId,
        /// What becomes of it.
        expiry: Expiry,
    },
}

/// What becomes of a question that nobody has decided in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expiry {
    /// A permission request: this.
    Decide(Choice),
    /// An elicitation is declined.
    Decline,
    /// Its turn is canceled.
    Cancel,
}

/// A rule that a decision becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule {
    /// Its id.
    pub rule_id: RuleId,
    /// What it is about.
    pub rule: String,
    /// What it says.
    pub action: &'static str,
    /// Whether it is for all workers of the controller.
    pub for_controller: bool,
    /// The decision that it is from.
    pub request_id: RequestId,
    /// When that was made.
    pub created_at: Timestamp,
}

/// What is stored of the inbox, beside the questions themselves.
#[derive(Debug, Clone, PartialEq)]
pub enum InboxFact {
    /// For which rule a request is asked.
    AskedFor {
        /// Which request.
        request_id: RequestId,
        /// The rule, as events tell of it.
        rule: Value,
    },
    /// A decision became a rule.
    RuleAdded(NewRule),
}

/// Why a turn is canceled of which nobody has answered a question in time.
pub(super) const EXPIRED: &str = "a question was not answered in time";

impl Next {
    pub(super) fn inbox(&mut self, input: InboxInput) -> Result<()> {
        match input {
            InboxInput::DecideAll { choices, note } => {
                choices.into_iter().try_for_each(|(request_id, choice)| {
                    self.decide_as(request_id, choice, note.clone(), DecidedBy::Owner, None)
                })
            }
            InboxInput::DecideAlways { request_id, choice, note, rule } => {
                let told = json!({
                    "ruleId": rule.rule_id, "rule": rule.rule, "action": rule.action,
                    "scope": if rule.for_controller { "controller" } else { "worker" },
                });
                self.decide_as(request_id, choice, note, DecidedBy::Owner, Some(told))?;
                self.facts.push(Fact::Inbox(InboxFact::RuleAdded(rule)));
                Ok(())
            }
            InboxInput::Expired { request_id, expiry } => self.expired(request_id, expiry),
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
                self.decide_as(request_id, Choice::cancelled(), note, DecidedBy::Deadline, None)
            }
            (QuestionKind::Elicitation, Expiry::Cancel) => {
                self.answer_as(request_id, nothing(ElicitationAction::Cancel), DecidedBy::Deadline)
            }
            (QuestionKind::Elicitation, Expiry::Decide(_) | Expiry::Decline) => {
                self.answer_as(request_id, nothing(ElicitationAction::Decline), DecidedBy::Deadline)
            }
        }
    }

    /// Cancels the turn that asked, if it is open and nobody wants that yet. The runtime answers the question with the
    /// cancel: an answer before it could end the turn well.
    fn expires_with(&mut self, request_id: &RequestId) -> bool {
        let asked = self.worker.approvals.get(request_id);
        let Some(turn) =
            asked.filter(|asked| asked.approval == Approval::Pending).and_then(|asked| asked.turn)
        else {
            return false;
        };
        let cancels =
            matches!(&self.worker.state, State::Turn(open) if open.no == turn && open.cancel.is_none());
        if cancels {
            let reason = EXPIRED.to_owned();
            let error = Error::new(Code::ApprovalTimeout, EXPIRED);
            self.facts.push(Fact::TaskCause { error, turn: Some(turn) });
            if self.cancel_turn(reason.clone(), Some(request_id)) {
                self.actions.push(Action::Cancel { turn, reason });
            }
        }
        cancels
    }

    /// Decides a permission request, of the agent or a simulated one.
    pub(super) fn decide_as(
        &mut self,
        request_id: RequestId,
        choice: Choice,
        note: Option<String>,
        by: DecidedBy,
        always: Option<Value>,
    ) -> Result<()> {
        if let State::Local(local) = &self.worker.state
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
        self.actions.push(Action::Answer { request_id, option_id: choice.option_id });
        Ok(())
    }
}

/// Data of `approval.decided`.
pub(super) fn decided(request_id: &RequestId, choice: &Choice, note: Option<String>, by: DecidedBy) -> Value {
    json!({
        "requestId": request_id, "decision": choice.decision,
        "optionId": choice.option_id.as_deref().unwrap_or("cancelled"), "alias": choice.alias,
        "note": note, "by": by,
    })
}

fn nothing(action: ElicitationAction) -> Reply {
    Reply { action, fields: Vec::new(), content: None }
}
