//! `role`: the roles of workers.

pub(crate) mod list;
pub(crate) mod show;
