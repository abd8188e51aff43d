//! Simulated clients of the queue, and the invariants of queued messages.

use serde_json::json;
use subagent_core::model::{QueuePosition, Queued, WorkerInput};
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::ids::TurnId;

use super::site::Site;
use super::world::WorldContext;

/// Maximum queue length of a worker.
const MOST: usize = 4;

impl Site {
    /// Sends a message to the queue, or repeats one whose answer was lost.
    pub(super) fn enqueue(&mut self, env: &mut WorldContext) {
        if !self.serves(env) {
            return;
        }
        let again = self.queue.unanswered.first().copied().filter(|_| env.calm || env.random.below(2) == 0);
        let key = again.unwrap_or_else(|| {
            self.next_key += 1;
            self.next_key
        });
        self.queue.unanswered.insert(key);
        if !self.queue.keys.contains_key(&key) {
            let number = self.next_key.to_be_bytes();
            let turn_id = TurnId::from_random([
                200 + u8::try_from(self.index).unwrap(),
                number[4],
                number[5],
                number[6],
                number[7],
            ]);
            let message = json!({"text": "queued"});
            let input = TurnInput { text: "queued".to_owned(), blocks_count: 0, subagent: None };
            let urgency = match self.task.is_some() && env.random.below(2) == 0 {
                // Sent to the task, or by the end of a task below it.
                true => *env.random.pick(&[QueuePosition::Resumed, QueuePosition::Delivered]),
                false => *env.random.pick(&[
                    QueuePosition::Queued,
                    QueuePosition::Queued,
                    QueuePosition::Retried,
                    QueuePosition::Steered,
                ]),
            };
            let queued = Queued { turn_id: turn_id.clone(), message, input, sender: None };
            let input = self.in_its_place(WorkerInput::Enqueue { queued, urgency, most: MOST }, env);
            let Ok(actions) = self.checker.step(&input) else {
                // A refusal is an answer too.
                self.queue.unanswered.remove(&key);
                return;
            };
            self.goes_on(env);
            self.queue.keys.insert(key, turn_id.clone());
            env.tally.queued += u64::from(self.checker.worker.queue.position(&turn_id).is_some());
            self.committed(actions, env);
        }
        // The answer may get lost, with or without the daemon.
        if !env.daemon_dies && (env.calm || env.random.below(4) != 0) {
            self.queue.unanswered.remove(&key);
            let turn_id = self.queue.keys[&key].clone();
            let before = self.queue.received.insert(key, turn_id.clone());
            assert!(before.is_none_or(|before| before == turn_id), "another result for key {key}");
        }
    }

    /// Drops or moves a queued message, or resumes a paused queue.
    pub(super) fn manage_queue(&mut self, env: &mut WorldContext) {
        let turns = &self.checker.worker.queue.turns;
        let chosen = match turns.len() as u64 {
            0 => None,
            length => turns.get(usize::try_from(env.random.below(length)).unwrap()).cloned(),
        };
        let input = match (env.random.below(6), chosen) {
            (0, Some(turn_id)) => WorkerInput::DropQueued { turn_id },
            (1 | 2, Some(turn_id)) => {
                WorkerInput::MoveQueued { turn_id, to: usize::try_from(env.random.below(4)).unwrap() }
            }
            _ => return self.resume_queue(env),
        };
        self.order(input, env);
    }

    /// An accepted message is in exactly one place: queued, begun or dropped.
    pub(super) fn check_queue(&self) {
        let rows = &self.checker.rows;
        for turn_id in self.queue.received.values() {
            let places = [
                rows.queue.position(turn_id).is_some(),
                rows.turns.values().any(|row| row.id == *turn_id),
                rows.dropped.contains(turn_id),
            ];
            let count = places.iter().filter(|there| **there).count();
            assert_eq!(count, 1, "{turn_id} was accepted, and is in {count} places");
        }
    }
}
