//! What is deleted or copied: removed workers, retention, orphaned files, backups.

pub(crate) mod backups;
pub(crate) mod janitor;
pub(crate) mod orphaned_files;
pub(crate) mod removal;
