//! All failpoints of the product, and what a manager must do for each of them to be reached.

/// What the manager does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Two turns with a question, a restart and a handoff between them, the end of the worker and of the daemon.
    Work,
    /// The same with so much output that a segment of the journal is sealed.
    Flood,
    /// The same with so much output that the database is checkpointed.
    Stream,
    /// The same with a turn that is canceled.
    Cancel,
    /// The same with a runtime that is stopped by a signal when it is to end.
    Frozen,
    /// The same with a pause in the first turn, until progress is synced.
    Pause,
    /// The same, and at the end the worker is removed.
    Remove,
}

/// What can happen at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing can fail there.
    Hit,
    /// Something can.
    Check,
}

use Job::{Cancel, Flood, Frozen, Pause, Remove, Stream, Work};
use Kind::{Check, Hit};

/// All points.
pub(crate) const POINTS: &[(&str, Kind, Job)] = &[
    // Starting a daemon, and its end.
    ("start_lock.before_take", Check, Work),
    ("start_lock.after_take", Hit, Work),
    ("daemon.before_spawn", Check, Work),
    ("daemon.after_spawn", Hit, Work),
    ("daemon_lock.before_take", Check, Work),
    ("daemon_lock.after_take", Hit, Work),
    ("daemon_lock.before_note", Check, Work),
    ("socket.before_bind", Check, Work),
    ("socket.after_bind", Hit, Work),
    ("socket.before_unlink", Hit, Work),
    ("announcement.before_write", Check, Work),
    ("announcement.before_rename", Check, Work),
    ("announcement.after_rename", Hit, Work),
    ("announcement.before_unlink", Hit, Work),
    ("ready.before_tell", Hit, Work),
    ("ready.after_tell", Hit, Work),
    ("hint.before_write", Check, Work),
    ("hint.after_write", Hit, Work),
    // The store.
    ("reserve.before_commit", Check, Work),
    ("reserve.after_commit", Hit, Work),
    ("transaction.before_begin", Check, Work),
    ("store.before_commit", Check, Work),
    ("store.after_commit", Hit, Work),
    ("sync.before_commit", Check, Pause),
    ("sync.after_commit", Hit, Pause),
    ("forget.before_write", Check, Work),
    ("forget.after_write", Hit, Work),
    ("checkpoint.before_write", Check, Stream),
    ("checkpoint.after_write", Hit, Stream),
    ("last_checkpoint.before_write", Check, Work),
    ("last_checkpoint.after_write", Hit, Work),
    // Starting a worker.
    ("environment.before_write", Check, Work),
    ("environment.after_write", Hit, Work),
    ("environment.before_unlink", Check, Work),
    ("worker.after_commit", Hit, Work),
    ("worker_folder.before_create", Check, Work),
    ("worker_lock.before_take", Check, Work),
    ("guard_lock.before_take", Check, Work),
    ("incarnation.after_commit", Hit, Work),
    ("spawn.before", Check, Work),
    ("spawn.after", Hit, Work),
    ("introduction.before_write", Hit, Work),
    ("segment.before_create", Check, Work),
    ("segment.after_create", Hit, Work),
    ("segment.after_head", Hit, Work),
    ("runtime_socket.before_bind", Check, Work),
    ("runtime_socket.after_bind", Hit, Work),
    ("runtime_socket.before_unlink", Hit, Work),
    ("listening.before_tell", Hit, Work),
    ("listening.after_tell", Hit, Work),
    ("listening.after_heard", Hit, Work),
    ("guard.before_spawn", Check, Work),
    ("guard.after_spawn", Hit, Work),
    ("agent.before_spawn", Check, Work),
    ("agent.after_spawn", Hit, Work),
    // A turn.
    ("turn.before_commit", Hit, Work),
    ("turn.after_commit", Hit, Work),
    ("dispatch.before_send", Hit, Work),
    ("dispatch.before_record", Hit, Work),
    ("dispatch.after_record", Hit, Work),
    ("dispatch.after_write", Hit, Work),
    ("journal.before_append", Check, Work),
    ("journal.before_allocate", Check, Work),
    ("journal.before_write", Check, Work),
    ("journal.after_append", Hit, Work),
    ("journal.before_seal", Check, Flood),
    ("journal.after_seal", Hit, Flood),
    ("turn_end.before_record", Hit, Work),
    ("turn_end.after_record", Hit, Work),
    // A permission request.
    ("question.before_record", Hit, Work),
    ("question.after_record", Hit, Work),
    ("decision.before_commit", Hit, Work),
    ("decision.after_commit", Hit, Work),
    ("answer.before_send", Hit, Work),
    ("answer.before_record", Hit, Work),
    ("answer.after_record", Hit, Work),
    ("answer.after_write", Hit, Work),
    // A cancel.
    ("cancel.before_commit", Hit, Cancel),
    ("cancel.after_commit", Hit, Cancel),
    ("cancel.before_send", Hit, Cancel),
    ("cancel.before_record", Hit, Cancel),
    ("cancel.after_record", Hit, Cancel),
    // A restart, and the end of a runtime.
    ("restart.before_commit", Hit, Work),
    ("restart.after_commit", Hit, Work),
    ("terminate.before_send", Hit, Work),
    ("terminate.before_record", Hit, Work),
    ("terminate.after_record", Hit, Work),
    ("end.before_clean", Hit, Work),
    ("end.after_clean", Hit, Work),
    ("ended.before_record", Hit, Work),
    ("ended.after_record", Hit, Work),
    ("runtime.before_kill", Hit, Frozen),
    ("gone.before_unlink", Hit, Work),
    ("gone.before_commit", Hit, Work),
    ("gone.after_commit", Hit, Work),
    ("segment.before_unlink", Check, Work),
    ("segment.after_unlink", Hit, Work),
    ("stop.before_commit", Hit, Work),
    ("stop.after_commit", Hit, Work),
    ("stopped.after_commit", Hit, Work),
    // A handoff.
    ("handoff.before_write", Check, Work),
    ("handoff.before_sync", Check, Work),
    ("handoff.before_rename", Check, Work),
    ("handoff.after_rename", Hit, Work),
    ("handoff.before_commit", Hit, Work),
    ("handoff.after_commit", Hit, Work),
    // A removal.
    ("remove.before_mark", Hit, Remove),
    ("remove.after_mark", Hit, Remove),
    ("chore.before_commit", Check, Remove),
    ("remove.before_files", Hit, Remove),
    ("remove.after_files", Hit, Remove),
];
