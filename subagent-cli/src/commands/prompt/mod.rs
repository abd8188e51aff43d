//! `prompt`: the prompt for a manager agent.

pub(crate) mod render;
