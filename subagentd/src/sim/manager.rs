//! Simulated clients: they send requests with keys, repeat them after a lost answer, and remember
//! results.

use serde_json::json;
use subagent_core::model::{
    By, ElicitationReply, Expiry, LifecycleState, PermissionDecision, QuestionInput, WorkerAction,
    WorkerInput,
};
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{ApprovalStatus, ElicitationAction, QuestionKind};

use super::Break;
use super::site::Site;
use super::world::WorldContext;

impl Site {
    /// Whether the daemon accepts changes of this worker.
    pub(super) fn serves(&self, env: &WorldContext) -> bool {
        env.daemon_up && self.memory.settled && !env.daemon_dies
    }

    /// Sends a message, or repeats one whose answer was lost.
    pub(super) fn send(&mut self, env: &mut WorldContext) {
        if !self.serves(env) {
            return;
        }
        let again = self.unanswered_keys.first().copied().filter(|_| env.calm || env.random.below(2) == 0);
        let key = again.unwrap_or_else(|| {
            self.next_key += 1;
            self.next_key
        });
        self.unanswered_keys.insert(key);
        let turn = match self.stored.keys.get(&key) {
            Some(turn) => *turn,
            None => {
                let turn = self.checker.worker.last_turn + 1;
                let by = if env.random.below(12) == 0 { By::Local } else { By::Runtime };
                let [.., a, b, c, d] = turn.to_be_bytes();
                let turn_id = TurnId::from_random([u8::try_from(self.index).unwrap(), a, b, c, d]);
                let text = self.text(turn);
                let message = json!({"text": text});
                let input = TurnInput { text, blocks_count: 0, subagent: None };
                let Ok(actions) = self.checker.step(&WorkerInput::Send { turn_id, message, input, by })
                else {
                    // A refusal is an answer too.
                    self.unanswered_keys.remove(&key);
                    return;
                };
                self.stored.keys.insert(key, turn);
                *self.stored.carried_out.entry(key).or_default() += 1;
                env.tally.turns += 1;
                self.committed(actions, env);
                turn
            }
        };
        // The answer may get lost, with or without the daemon.
        if !env.daemon_dies && (env.calm || env.random.below(4) != 0) {
            self.unanswered_keys.remove(&key);
            let before = self.received.turns.insert(key, turn);
            assert!(before.is_none_or(|before| before == turn), "8: another result for key {key}");
        }
    }

    pub(super) fn cancel(&mut self, env: &mut WorldContext) {
        self.order(WorkerInput::Cancel { turn: None, reason: "canceled by manager".to_owned() }, env);
    }

    pub(super) fn stop(&mut self, env: &mut WorldContext) {
        self.order(WorkerInput::Stop, env);
    }

    pub(super) fn restart(&mut self, env: &mut WorldContext) {
        let force = env.random.below(2) == 0;
        self.order(WorkerInput::Restart { force, beside: false }, env);
    }

    /// Decides a pending permission request.
    pub(super) fn decide(&mut self, env: &mut WorldContext) {
        if !self.serves(env) {
            return;
        }
        let pending: Vec<_> = self
            .checker
            .rows
            .approvals()
            .filter(|(_, status)| *status == ApprovalStatus::Pending)
            .map(|(request_id, _)| request_id.clone())
            .collect();
        if pending.is_empty() {
            return;
        }
        let request_id = env.random.pick(&pending).clone();
        let asked = self.checker.worker.approvals.get(&request_id).map(|asked| asked.kind);
        let elicits = asked == Some(QuestionKind::Elicitation);
        let (yes, no) = if elicits { ("accept", "decline") } else { ("allow", "deny") };
        let option = match env.random.below(5) {
            0 => None,
            1 | 2 => Some(no.to_owned()),
            _ => Some(yes.to_owned()),
        };
        if env.broken == Some(Break::DecidesInTheUsersName) {
            let option_id = Some(yes.to_owned());
            return self.memory.todo.push_back(WorkerAction::Answer { request_id, option_id });
        }
        if env.broken != Some(Break::DecisionIsNotStored) {
            let decision = option.clone().unwrap_or_else(|| "cancelled".to_owned());
            let choice = PermissionDecision { option_id: option.clone(), alias: None, decision };
            if env.random.below(5) == 0 {
                return self.expire(request_id, elicits, choice, env);
            }
            let input = if elicits {
                let action = option.as_deref().and_then(ElicitationAction::parse);
                let action = action.unwrap_or(ElicitationAction::Cancel);
                let content = (option.as_deref() == Some(yes)).then(|| Secret(String::new()));
                WorkerInput::Answer {
                    request_id: request_id.clone(),
                    reply: ElicitationReply { action, fields: Vec::new(), content },
                }
            } else {
                WorkerInput::Decide { request_id: request_id.clone(), choice, note: None }
            };
            let Ok(actions) = self.checker.step(&input) else { return };
            self.decided.insert(request_id.clone(), option.clone());
            env.tally.decisions += 1;
            self.committed(actions, env);
        }
        if !env.daemon_dies {
            self.received.decisions.insert(request_id, option);
        }
    }

    /// The deadline passes: the daemon decides without a client.
    fn expire(
        &mut self,
        request_id: RequestId,
        elicits: bool,
        choice: PermissionDecision,
        env: &mut WorldContext,
    ) {
        let (expiry, option) = match (env.random.below(3), elicits) {
            (0, _) => (Expiry::Cancel, None),
            (_, true) => (Expiry::Decline, Some("decline".to_owned())),
            (_, false) => (Expiry::Decide(choice.clone()), choice.option_id),
        };
        let input = WorkerInput::Inbox(QuestionInput::Expired { request_id: request_id.clone(), expiry });
        let Ok(actions) = self.checker.step(&input) else { return };
        self.decided.insert(request_id, option);
        env.tally.decisions += 1;
        self.committed(actions, env);
    }

    pub(super) fn order(&mut self, input: WorkerInput, env: &mut WorldContext) {
        if !self.serves(env) {
            return;
        }
        if let Ok(actions) = self.checker.step(&input) {
            self.committed(actions, env);
        }
    }

    pub(super) fn committed(&mut self, actions: Vec<WorkerAction>, env: &mut WorldContext) {
        self.memory.todo.extend(actions);
        env.after_commit();
    }

    /// Whether no work is in progress and no request is unanswered.
    pub(super) fn rests(&self) -> bool {
        let worker = &self.checker.worker;
        worker.open_turn().is_none()
            && worker.approvals.is_empty()
            && self.unanswered_keys.is_empty()
            && self.queue.unanswered.is_empty()
            && worker.queue.turns.is_empty()
            && !matches!(worker.state, LifecycleState::Starting | LifecycleState::Stopping(_))
    }
}
