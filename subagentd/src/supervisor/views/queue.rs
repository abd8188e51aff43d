//! Views of a worker's queue. No I/O.

use subagent_core::model::Queue;
use subagent_protocol::api::QueueView;

/// Returns the short form of a queue.
pub(crate) fn queue_view(queue: &Queue) -> QueueView {
    QueueView { length: queue.turns.len(), paused: queue.paused.is_some(), reason: queue.paused }
}
