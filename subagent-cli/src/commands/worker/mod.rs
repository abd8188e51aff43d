//! `worker`: starts, lists, shows, stops and removes workers.

pub(crate) mod r#continue;
pub(crate) mod handoff;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod restart;
pub(crate) mod resume;
pub(crate) mod rm;
pub(crate) mod set;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod stop;
