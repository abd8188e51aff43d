//! `session`: the sessions that an agent keeps.

pub(crate) mod delete;
pub(crate) mod list;
