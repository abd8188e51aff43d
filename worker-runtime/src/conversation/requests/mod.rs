//! What the agent asks us for: permissions, forms, files and terminals.

pub(in crate::conversation) mod approvals;
pub(in crate::conversation) mod asking;
pub(in crate::conversation) mod calls;
pub(in crate::conversation) mod client_request;
pub(in crate::conversation) mod question;
