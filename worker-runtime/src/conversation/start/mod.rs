//! From the agent's start to a session that is ready for turns.

pub(in crate::conversation) mod applying;
pub(in crate::conversation) mod definition;
pub(in crate::conversation) mod handshake;
pub(in crate::conversation) mod login;
pub(in crate::conversation) mod replay;
pub(in crate::conversation) mod settings;
