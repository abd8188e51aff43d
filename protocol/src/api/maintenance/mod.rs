//! Care for the stored state: backups, examination and removal.

pub(super) mod backups;
pub(super) mod examination;
pub(super) mod removal;
pub(super) mod task_prune;
