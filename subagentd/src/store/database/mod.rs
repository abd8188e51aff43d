//! The database as a file: its schema, checks, copies and restores.

pub(super) mod backup;
pub(super) mod examine;
pub(crate) mod files;
pub(crate) mod identity;
pub(super) mod open;
pub(crate) mod restore;
pub(super) mod schema;
mod unfinished;
