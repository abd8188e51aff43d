//! Care for the stored state: backups and removal.

pub(in crate::api) mod backups;
pub(in crate::api) mod removal;
